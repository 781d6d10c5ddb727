-- Empty tables for those that the source lacks.
-- Out: raw_patients, raw_deaths, raw_follow_up.
CREATE TABLE IF NOT EXISTS raw_patients (
    row BIGINT, patient_id VARCHAR, sex VARCHAR, birth_date VARCHAR, birth_is_guessed VARCHAR, death_date VARCHAR,
    hospital_death_date VARCHAR, registered_death_date VARCHAR,
    anchor_age VARCHAR, anchor_year VARCHAR, ethnicity VARCHAR, split VARCHAR,
    replaced_by VARCHAR, replaces VARCHAR, other VARCHAR
);
CREATE TABLE IF NOT EXISTS raw_deaths (
    row BIGINT, patient_id VARCHAR, death_date VARCHAR, other VARCHAR
);
CREATE TABLE IF NOT EXISTS raw_follow_up (
    row BIGINT, patient_id VARCHAR, start_date VARCHAR, end_date VARCHAR, other VARCHAR
);
