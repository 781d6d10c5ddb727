-- The made-up hospital as MIMIC-IV. In: ADMISSIONS, PATIENTS, NOTEEVENTS, codes as text.
-- MIMIC-IV has no nursing or physician notes: the short notes become radiology reports.
COPY (
    SELECT SUBJECT_ID AS subject_id, HADM_ID AS hadm_id, ADMITTIME AS admittime,
        DISCHTIME AS dischtime, DEATHTIME AS deathtime, ADMISSION_TYPE AS admission_type,
        ADMISSION_LOCATION AS admission_location, DISCHARGE_LOCATION AS discharge_location,
        INSURANCE AS insurance, LANGUAGE AS language, MARITAL_STATUS AS marital_status,
        ETHNICITY AS race, EDREGTIME AS edregtime, EDOUTTIME AS edouttime,
        HOSPITAL_EXPIRE_FLAG AS hospital_expire_flag
    FROM ADMISSIONS
) TO '{folder}/admissions.csv' (HEADER);

COPY (
    SELECT p.SUBJECT_ID AS subject_id, p.GENDER AS gender,
        least(any_value(date_diff('year', p.DOB::TIMESTAMP, a.first_time)), 91) AS anchor_age,
        any_value(year(a.first_time)) AS anchor_year, left(p.DOD, 10) AS dod
    FROM PATIENTS p JOIN (
        SELECT SUBJECT_ID, min(ADMITTIME::TIMESTAMP) AS first_time FROM ADMISSIONS GROUP BY ALL
    ) a USING (SUBJECT_ID)
    GROUP BY ALL
    ORDER BY p.SUBJECT_ID
) TO '{folder}/patients.csv' (HEADER);

COPY (
    SELECT concat(SUBJECT_ID, '-DS-', ROW_ID) AS note_id, SUBJECT_ID AS subject_id,
        HADM_ID AS hadm_id, if(DESCRIPTION = 'Addendum', 'AD', 'DS') AS note_type,
        ROW_ID AS note_seq, concat(CHARTDATE, ' 00:00:00') AS charttime, '' AS storetime,
        TEXT AS text
    FROM NOTEEVENTS WHERE CATEGORY = 'Discharge summary' AND coalesce(ISERROR, '') <> '1'
) TO '{folder}/discharge.csv' (HEADER);

COPY (
    SELECT concat(SUBJECT_ID, '-RR-', ROW_ID) AS note_id, SUBJECT_ID AS subject_id,
        HADM_ID AS hadm_id, 'RR' AS note_type, ROW_ID AS note_seq, CHARTTIME AS charttime,
        STORETIME AS storetime, TEXT AS text
    FROM NOTEEVENTS WHERE CATEGORY <> 'Discharge summary'
) TO '{folder}/radiology.csv' (HEADER);

COPY (
    SELECT subject AS subject_id, hadm AS hadm_id, seq AS seq_num, icd10 AS icd_code, 10 AS icd_version
    FROM codes
) TO '{folder}/diagnoses_icd.csv' (HEADER);
