-- The side of each patient by time: the last stay decides, earlier periods lose the patient.
-- In:  stays, rules.
-- Out: splits; changes the exclusion of stays.

-- A quantile takes a constant, which a column is not.
SET VARIABLE val_from = (SELECT val_from FROM rules);
SET VARIABLE test_from = (SELECT test_from FROM rules);

CREATE TABLE periods AS
WITH cuts AS (
    SELECT
        quantile_disc(discharge_time, getvariable('val_from')) AS val_start,
        quantile_disc(discharge_time, getvariable('test_from')) AS test_start
    FROM stays
    WHERE exclusion IS NULL
)
SELECT
    stay_no,
    patient_id,
    CASE WHEN discharge_time < val_start THEN 1 WHEN discharge_time < test_start THEN 2 ELSE 3 END
        AS period
FROM stays, cuts
WHERE exclusion IS NULL;

CREATE TABLE splits AS
SELECT patient_id, ['train', 'val', 'test'][max(period)] AS split
FROM periods
GROUP BY patient_id;

UPDATE stays SET exclusion = 'earlier_period'
FROM periods
JOIN splits USING (patient_id)
WHERE stays.stay_no = periods.stay_no
  AND ['train', 'val', 'test'][periods.period] <> splits.split;
