-- The made-up hospital as OMOP CDM 5.4. In: ADMISSIONS, PATIENTS, NOTEEVENTS, codes as text.
-- Lost: insurance, languages, and the notes that were marked as errors.
COPY (
    SELECT SUBJECT_ID AS person_id, if(GENDER = 'M', 8507, 8532) AS gender_concept_id,
        year(DOB::TIMESTAMP) AS year_of_birth, month(DOB::TIMESTAMP) AS month_of_birth,
        day(DOB::TIMESTAMP) AS day_of_birth, DOB AS birth_datetime,
        0 AS race_concept_id, 0 AS ethnicity_concept_id, NULL AS location_id, NULL AS provider_id,
        NULL AS care_site_id, SUBJECT_ID AS person_source_value, GENDER AS gender_source_value,
        0 AS gender_source_concept_id, a.race AS race_source_value, 0 AS race_source_concept_id,
        NULL AS ethnicity_source_value, 0 AS ethnicity_source_concept_id
    FROM PATIENTS JOIN (
        SELECT SUBJECT_ID, min(ETHNICITY) AS race FROM ADMISSIONS GROUP BY ALL
    ) a USING (SUBJECT_ID)
    ORDER BY person_id
) TO '{folder}/PERSON.csv' (HEADER);

COPY (
    SELECT SUBJECT_ID AS person_id, left(DOD, 10) AS death_date,
        CASE WHEN DOD NOT LIKE '% 00:00:00' THEN DOD END AS death_datetime,
        32817 AS death_type_concept_id, NULL AS cause_concept_id, NULL AS cause_source_value,
        NULL AS cause_source_concept_id
    FROM PATIENTS WHERE DOD <> ''
) TO '{folder}/DEATH.csv' (HEADER);

-- From each admission to 60 days after its discharge: nobody looks between stays that are far apart.
COPY (
    WITH spans AS (
        SELECT SUBJECT_ID, ADMITTIME::DATE AS begins, DISCHTIME::DATE + 60 AS ends FROM ADMISSIONS
    ),
    reached AS (
        SELECT *, max(ends) OVER (PARTITION BY SUBJECT_ID ORDER BY begins, ends
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_end
        FROM spans
    ),
    numbered AS (
        SELECT *, count(CASE WHEN begins > earlier_end + 1 THEN 1 END) OVER (
            PARTITION BY SUBJECT_ID ORDER BY begins, ends) AS period
        FROM reached
    )
    SELECT row_number() OVER (ORDER BY SUBJECT_ID, period) AS observation_period_id,
        SUBJECT_ID AS person_id, min(begins) AS observation_period_start_date,
        max(ends) AS observation_period_end_date, 32817 AS period_type_concept_id
    FROM numbered
    GROUP BY SUBJECT_ID, period
) TO '{folder}/OBSERVATION_PERIOD.csv' (HEADER);

COPY (
    SELECT HADM_ID AS visit_occurrence_id, SUBJECT_ID AS person_id,
        if(ADMISSION_LOCATION = 'EMERGENCY ROOM ADMIT', 262, 9201) AS visit_concept_id,
        left(ADMITTIME, 10) AS visit_start_date, ADMITTIME AS visit_start_datetime,
        left(DISCHTIME, 10) AS visit_end_date, DISCHTIME AS visit_end_datetime,
        32817 AS visit_type_concept_id, NULL AS provider_id, NULL AS care_site_id,
        ADMISSION_TYPE AS visit_source_value, 0 AS visit_source_concept_id,
        0 AS admitted_from_concept_id, ADMISSION_LOCATION AS admitted_from_source_value,
        if(HOSPITAL_EXPIRE_FLAG = '1', 4216643, 0) AS discharged_to_concept_id,
        DISCHARGE_LOCATION AS discharged_to_source_value, NULL AS preceding_visit_occurrence_id
    FROM ADMISSIONS
) TO '{folder}/VISIT_OCCURRENCE.csv' (HEADER);

COPY (
    SELECT ROW_ID AS note_id, SUBJECT_ID AS person_id, CHARTDATE AS note_date,
        CHARTTIME AS note_datetime, 32831 AS note_type_concept_id,
        if(CATEGORY = 'Discharge summary', 44814637, 44814645) AS note_class_concept_id,
        concat_ws(' ', trim(CATEGORY), DESCRIPTION) AS note_title, TEXT AS note_text,
        32678 AS encoding_concept_id, 4180186 AS language_concept_id, NULL AS provider_id,
        HADM_ID AS visit_occurrence_id, NULL AS visit_detail_id, CATEGORY AS note_source_value,
        NULL AS note_event_id, NULL AS note_event_field_concept_id
    FROM NOTEEVENTS WHERE coalesce(ISERROR, '') <> '1'
) TO '{folder}/NOTE.csv' (HEADER);

-- The source's own codes, without standard concepts; 32902 is the primary diagnosis, 32908 another one.
COPY (
    SELECT row_number() OVER () AS condition_occurrence_id, subject AS person_id,
        0 AS condition_concept_id, left(DISCHTIME, 10) AS condition_start_date,
        DISCHTIME AS condition_start_datetime, NULL AS condition_end_date,
        NULL AS condition_end_datetime, 32821 AS condition_type_concept_id,
        if(seq = '1', 32902, 32908) AS condition_status_concept_id, NULL AS stop_reason,
        NULL AS provider_id, hadm AS visit_occurrence_id, NULL AS visit_detail_id,
        icd10 AS condition_source_value, 0 AS condition_source_concept_id,
        NULL AS condition_status_source_value
    FROM codes JOIN ADMISSIONS ON HADM_ID = hadm
    ORDER BY hadm::BIGINT, seq::INTEGER
) TO '{folder}/CONDITION_OCCURRENCE.csv' (HEADER);
