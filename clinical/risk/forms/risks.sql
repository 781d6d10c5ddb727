-- The stays of a cohort file that may be scored, with the time of their prediction and the outcome,
-- which is NULL where it is not known yet.
SELECT patient_id, stay_id, admit_time, discharge_time,
    coalesce(episode_start + to_microseconds(round($hours * 3600e6)::BIGINT), discharge_time)
        AS prediction_time,
    readmitted = 1 AS boolean_value
FROM read_parquet($path)
WHERE scorable;
