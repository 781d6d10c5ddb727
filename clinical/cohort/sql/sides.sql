-- Stays, patients and outcomes of the whole cohort ("all", first) and of each of its sides; a source
-- may have sides of its own, and patients on none of them.
-- In:  cohort.
SELECT CASE WHEN grouping(split) = 1 THEN 'all' ELSE split END AS side,
    count(*) AS stays, count(DISTINCT patient_id) AS patients,
    count(*) FILTER (readmitted = 1) AS readmitted,
    count(*) FILTER (transfer) AS transfers,
    count(*) FILTER (died_within_horizon) AS died_within_horizon
FROM cohort
WHERE exclusion IS NULL
GROUP BY ROLLUP (split)
ORDER BY list_position(['all', 'train', 'val', 'test'], side), side;
