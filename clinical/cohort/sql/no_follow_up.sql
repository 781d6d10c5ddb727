-- The source has no periods of observation.
CREATE TABLE raw_follow_up (
    row BIGINT, patient_id VARCHAR, start_date VARCHAR, end_date VARCHAR, other VARCHAR
);
