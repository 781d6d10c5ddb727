-- The source has no table of patients.
CREATE TABLE raw_patients (
    row BIGINT, patient_id VARCHAR, sex VARCHAR, birth_date VARCHAR, death_date VARCHAR,
    anchor_age VARCHAR, anchor_year VARCHAR, ethnicity VARCHAR, split VARCHAR,
    other VARCHAR
);
