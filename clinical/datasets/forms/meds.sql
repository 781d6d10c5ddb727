-- The made-up hospital as MEDS 0.4. In: ADMISSIONS, PATIENTS, NOTEEVENTS, codes as text.
-- Lost: insurance, languages, and the notes that were marked as errors.
CREATE TABLE data AS
WITH events AS (
    SELECT SUBJECT_ID AS subject_id, DOB AS time, 'MEDS_BIRTH' AS code, NULL AS hadm_id,
        NULL AS note_id, NULL AS text_value
    FROM PATIENTS
    UNION ALL SELECT SUBJECT_ID, NULL, 'GENDER//' || GENDER, NULL, NULL, NULL FROM PATIENTS
    UNION ALL SELECT DISTINCT SUBJECT_ID, NULL, 'RACE//' || ETHNICITY, NULL, NULL, NULL
    FROM ADMISSIONS
    UNION ALL SELECT SUBJECT_ID, DOD, 'MEDS_DEATH', NULL, NULL, NULL
    FROM PATIENTS WHERE DOD <> ''
    UNION ALL SELECT SUBJECT_ID, ADMITTIME,
        concat_ws('//', 'HOSPITAL_ADMISSION', ADMISSION_TYPE, ADMISSION_LOCATION), HADM_ID,
        NULL, NULL
    FROM ADMISSIONS
    UNION ALL SELECT SUBJECT_ID, DISCHTIME, concat_ws('//', 'HOSPITAL_DISCHARGE', DISCHARGE_LOCATION),
        HADM_ID, NULL, NULL
    FROM ADMISSIONS
    UNION ALL SELECT SUBJECT_ID, coalesce(nullif(CHARTTIME, ''), CHARTDATE),
        concat_ws('//', 'NOTE', trim(CATEGORY), DESCRIPTION), HADM_ID, ROW_ID, TEXT
    FROM NOTEEVENTS WHERE coalesce(ISERROR, '') <> '1'
    UNION ALL SELECT subject, DISCHTIME, 'DIAGNOSIS//ICD//10//' || icd10, hadm, NULL, NULL
    FROM codes JOIN ADMISSIONS ON HADM_ID = hadm
)
SELECT subject_id::BIGINT AS subject_id, time::TIMESTAMP AS time, code,
    NULL::FLOAT AS numeric_value, text_value, hadm_id::BIGINT AS hadm_id,
    note_id::BIGINT AS note_id
FROM events;

COPY (FROM data ORDER BY subject_id, time NULLS FIRST, code, hadm_id, note_id)
TO '{folder}/data/0.parquet';

COPY (
    SELECT 'made-up hospital' AS dataset_name, '0.4.0' AS meds_version
) TO '{folder}/metadata/dataset.json';

COPY (
    SELECT DISTINCT code, NULL::VARCHAR AS description, NULL::VARCHAR[] AS parent_codes
    FROM data ORDER BY code
) TO '{folder}/metadata/codes.parquet';

COPY (
    SELECT subject_id::BIGINT AS subject_id,
        CASE split WHEN 'val' THEN 'tuning' WHEN 'test' THEN 'held_out' ELSE split END AS split
    FROM SPLITS ORDER BY 1
) TO '{folder}/metadata/subject_splits.parquet';
