-- Patients on sides of the source other than train, val and test, with counts.
-- In:  patients.
SELECT coalesce(split, 'none') AS side, count(*) AS n
FROM patients
WHERE (SELECT count(split) FROM patients) > 0
GROUP BY side
HAVING side NOT IN ('train', 'val', 'test')
ORDER BY n DESC, side;
