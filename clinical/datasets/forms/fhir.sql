-- The made-up hospital as FHIR R4 Bulk Data. In: ADMISSIONS, PATIENTS, NOTEEVENTS as text.
-- Lost: insurance, languages, ethnicity. A merge patch leaves out what is NULL.
COPY (
    SELECT json_merge_patch('{}', json_object(
        'resourceType', 'Patient', 'id', SUBJECT_ID,
        'gender', if(GENDER = 'M', 'male', 'female'), 'birthDate', left(DOB, 10),
        'deceasedDateTime', replace(nullif(DOD, ''), ' ', 'T') || 'Z')) AS json
    FROM PATIENTS
) TO '{folder}/Patient.ndjson' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\t');

COPY (
    SELECT json_merge_patch('{}', json_object(
        'resourceType', 'Encounter', 'id', HADM_ID, 'status', 'finished',
        'class', json_object('system', 'http://terminology.hl7.org/CodeSystem/v3-ActCode',
            'code', 'IMP'),
        'priority', json_object('text', ADMISSION_TYPE),
        'subject', json_object('reference', 'Patient/' || SUBJECT_ID),
        'period', json_object('start', replace(ADMITTIME, ' ', 'T') || 'Z',
            'end', replace(DISCHTIME, ' ', 'T') || 'Z'),
        'hospitalization', json_object('dischargeDisposition', json_object(
            'coding', json_array(json_object(
                'system', 'http://terminology.hl7.org/CodeSystem/discharge-disposition',
                'code', if(HOSPITAL_EXPIRE_FLAG = '1', 'exp', 'oth'))),
            'text', DISCHARGE_LOCATION)))) AS json
    FROM ADMISSIONS
) TO '{folder}/Encounter.ndjson' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\t');

COPY (
    SELECT json_merge_patch('{}', json_object(
        'resourceType', 'DocumentReference', 'id', ROW_ID,
        'status', if(ISERROR = '1', 'entered-in-error', 'current'),
        'type', json_object('coding', json_array(json_object('system', 'http://loinc.org',
                'code', if(CATEGORY = 'Discharge summary', '18842-5', '34109-9'))),
            'text', trim(CATEGORY)),
        'subject', json_object('reference', 'Patient/' || SUBJECT_ID),
        'date', replace(coalesce(nullif(CHARTTIME, ''), CHARTDATE || ' 00:00:00'), ' ', 'T') || 'Z',
        'relatesTo', CASE WHEN DESCRIPTION = 'Addendum' THEN json_array(json_object(
            'code', 'appends', 'target', json_object('reference', 'DocumentReference/' || first(ROW_ID)
                OVER (PARTITION BY HADM_ID ORDER BY CATEGORY <> 'Discharge summary',
                    coalesce(ISERROR, '') = '1', DESCRIPTION = 'Addendum'))))
            END,
        'content', json_array(json_object('attachment', json_object(
            'contentType', 'text/plain; charset=utf-8', 'data', to_base64(encode(TEXT))))),
        'context', json_object('encounter', json_array(
            json_object('reference', 'Encounter/' || HADM_ID))))) AS json
    FROM NOTEEVENTS
    ORDER BY ROW_ID::BIGINT   -- the same seed, the same bytes
) TO '{folder}/DocumentReference.ndjson'
    (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\t');
