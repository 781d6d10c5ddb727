-- Stays, patients and outcomes of the whole cohort (first, without a split) and of each of its sides.
-- In:  cohort.
SELECT split, count(*) AS stays, count(DISTINCT patient_id) AS patients,
    count(*) FILTER (readmitted = 1) AS readmitted,
    count(*) FILTER (transfer) AS transfers,
    count(*) FILTER (died_within_horizon) AS died_within_horizon
FROM cohort
WHERE exclusion IS NULL
GROUP BY ROLLUP (split)
ORDER BY list_position(['train', 'val', 'test'], split) NULLS FIRST;
