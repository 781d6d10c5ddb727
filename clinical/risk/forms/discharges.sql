-- The stays of a cohort file that were discharged since a time, in the order of the file. A stay
-- without a time of discharge is among them while no later one of its patient has begun: the patient
-- may still be in hospital.
SELECT *
FROM read_parquet($path)
WHERE $since::TIMESTAMP IS NULL
   OR discharge_time >= $since
   OR discharge_time IS NULL AND (
        admit_time IS NULL
        OR (patient_id, admit_time) IN (
            SELECT (patient_id, max(admit_time)) FROM read_parquet($path) GROUP BY patient_id
        )
   );
