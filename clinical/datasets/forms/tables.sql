-- The tables of MIMIC-III but for its notes, as text.
-- In:  stays, in the order of `number`, which begins at 1; codes.
-- Out: PATIENTS, ADMISSIONS, DIAGNOSES_ICD, TRUE_RISK.
CREATE MACRO moment(x) AS strftime(x, '%Y-%m-%d %H:%M:%S');

CREATE TABLE PATIENTS AS
SELECT
    row_number() OVER (ORDER BY number)::VARCHAR AS ROW_ID,
    subject::VARCHAR AS SUBJECT_ID,
    sex AS GENDER,
    moment(birth) AS DOB,
    CASE WHEN course = 'death' THEN moment(discharged) END AS DOD,
    DOD AS DOD_HOSP,
    NULL::VARCHAR AS DOD_SSN,
    if(course = 'death', '1', '0') AS EXPIRE_FLAG
FROM (SELECT * FROM stays QUALIFY number = max(number) OVER (PARTITION BY subject))
ORDER BY number;

CREATE TABLE ADMISSIONS AS
SELECT
    number::VARCHAR AS ROW_ID,
    subject::VARCHAR AS SUBJECT_ID,
    hadm::VARCHAR AS HADM_ID,
    moment(admitted) AS ADMITTIME,
    moment(discharged) AS DISCHTIME,
    CASE WHEN course = 'death' THEN DISCHTIME END AS DEATHTIME,
    CASE WHEN course IN ('elective', 'newborn') THEN upper(course) ELSE urgency END AS ADMISSION_TYPE,
    CASE WHEN course_before = 'transfer' THEN 'TRANSFER FROM HOSP/EXTRAM'
         WHEN course IN ('elective', 'newborn') THEN 'PHYS REFERRAL/NORMAL DELI'
         ELSE 'EMERGENCY ROOM ADMIT' END AS ADMISSION_LOCATION,
    CASE course WHEN 'death' THEN 'DEAD/EXPIRED' WHEN 'transfer' THEN 'SHORT TERM HOSPITAL'
         WHEN 'newborn' THEN 'HOME' ELSE usual_location END AS DISCHARGE_LOCATION,
    insurance AS INSURANCE,
    language AS LANGUAGE,
    religion AS RELIGION,
    marital_status AS MARITAL_STATUS,
    ethnicity AS ETHNICITY,
    -- When the patient came to the emergency room and left it.
    moment(admitted - to_minutes(minutes_before)) AS EDREGTIME,
    moment(admitted + to_minutes(minutes_after)) AS EDOUTTIME,
    diagnosis AS DIAGNOSIS,
    if(course = 'death', '1', '0') AS HOSPITAL_EXPIRE_FLAG,
    '1' AS HAS_CHARTEVENTS_DATA
FROM stays
ORDER BY number;

CREATE TABLE TRUE_RISK AS
SELECT subject::VARCHAR AS SUBJECT_ID, hadm::VARCHAR AS HADM_ID, format('{:.6f}', risk) AS TRUE_RISK
FROM stays
WHERE risk IS NOT NULL
ORDER BY number;

CREATE TABLE DIAGNOSES_ICD AS
SELECT row_number() OVER ()::VARCHAR AS ROW_ID, subject AS SUBJECT_ID, hadm AS HADM_ID,
    seq AS SEQ_NUM, icd9 AS ICD9_CODE
FROM codes;
