-- The made-up hospital as FHIR R4 Bulk Data. In: ADMISSIONS, PATIENTS, NOTEEVENTS, codes as text.
-- Lost: insurance, languages, ethnicity. A merge patch leaves out what is NULL. Encounters and documents
-- have what US Core asks of them. The summaries of one stay in five are links to Binary/.
COPY (
    SELECT json_merge_patch('{}', json_object(
        'resourceType', 'Patient', 'id', SUBJECT_ID,
        'gender', if(GENDER = 'M', 'male', 'female'), 'birthDate', left(DOB, 10),
        'deceasedDateTime', if(DOD LIKE '% 00:00:00', left(DOD, 10),
            replace(nullif(DOD, ''), ' ', 'T') || 'Z'))) AS json
    FROM PATIENTS
) TO '{folder}/Patient.ndjson' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\t');

COPY (
    SELECT json_merge_patch('{}', json_object(
        'resourceType', 'Encounter', 'id', HADM_ID, 'status', 'finished',
        'class', json_object('system', 'http://terminology.hl7.org/CodeSystem/v3-ActCode',
            'code', 'IMP'),
        'type', json_array(json_object('text', 'Inpatient stay')),
        'priority', json_object('text', ADMISSION_TYPE),
        'subject', json_object('reference', 'Patient/' || SUBJECT_ID),
        'period', json_object('start', replace(ADMITTIME, ' ', 'T') || 'Z',
            'end', replace(DISCHTIME, ' ', 'T') || 'Z'),
        'hospitalization', CASE WHEN DISCHARGE_LOCATION IS NOT NULL THEN
            json_object('dischargeDisposition', json_object(
                'coding', json_array(json_object(
                    'system', 'http://terminology.hl7.org/CodeSystem/discharge-disposition',
                    'code', if(HOSPITAL_EXPIRE_FLAG = '1', 'exp', 'oth'))),
                'text', DISCHARGE_LOCATION)) END)) AS json
    FROM ADMISSIONS
    UNION ALL   -- one stay in ten has a ward and a bed, each an encounter within the one above
    SELECT json_object(
        'resourceType', 'Encounter', 'id', HADM_ID || '-' || level, 'status', 'finished',
        'class', json_object('system', 'http://terminology.hl7.org/CodeSystem/v3-ActCode',
            'code', 'IMP'),
        'type', json_array(json_object('text', 'Part of a stay')),
        'subject', json_object('reference', 'Patient/' || SUBJECT_ID),
        'partOf', json_object('reference', 'Encounter/' || HADM_ID || above),
        'period', json_object('start', replace(ADMITTIME, ' ', 'T') || 'Z',
            'end', replace(DISCHTIME, ' ', 'T') || 'Z')) AS json
    FROM ADMISSIONS, (VALUES ('ward', ''), ('bed', '-ward')) parts(level, above)
    WHERE HADM_ID LIKE '%0'
    ORDER BY json
) TO '{folder}/Encounter.ndjson' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\t');

-- A fifth of the summaries replaces a draft, which is marked as superseded or only named by its successor.
CREATE TABLE DOCUMENTS AS
    WITH notes AS (
        SELECT *, CATEGORY = 'Discharge summary' AND DESCRIPTION = 'Report'
            AND coalesce(ISERROR, '') <> '1' AND regexp_matches(HADM_ID, '[12]$') AS is_revised,
            CATEGORY = 'Discharge summary' AND regexp_matches(HADM_ID, '[15]$') AS is_linked
        FROM NOTEEVENTS
    )
    SELECT *, ROW_ID AS id, if(ISERROR = '1', 'entered-in-error', 'current') AS status,
        CASE WHEN DESCRIPTION = 'Addendum' THEN 'appends' WHEN is_revised THEN 'replaces' END AS relation,
        CASE WHEN is_revised THEN ROW_ID || '-draft' ELSE first(ROW_ID) OVER (
            PARTITION BY HADM_ID ORDER BY CATEGORY <> 'Discharge summary',
                coalesce(ISERROR, '') = '1', DESCRIPTION = 'Addendum') END AS target
    FROM notes
    UNION ALL
    SELECT * REPLACE ('Draft. ' || TEXT AS TEXT), ROW_ID || '-draft',
        if(HADM_ID LIKE '%1', 'superseded', 'current'), NULL, NULL
    FROM notes WHERE is_revised;

COPY (
    SELECT json_object('resourceType', 'Binary', 'id', id,
        'contentType', 'text/plain; charset=utf-8', 'data', to_base64(encode(TEXT))) AS json
    FROM DOCUMENTS WHERE is_linked
    ORDER BY ROW_ID::BIGINT, id
) TO '{folder}/Binary/Binary.ndjson.gz'
    (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\t', COMPRESSION gzip);

COPY (
    SELECT json_merge_patch('{}', json_object(
        'resourceType', 'DocumentReference', 'id', id, 'status', status,
        'type', json_object('coding', json_array(json_object('system', 'http://loinc.org',
                'code', if(CATEGORY = 'Discharge summary', '18842-5', '34109-9'))),
            'text', trim(CATEGORY)),
        'category', json_array(json_object('coding', json_array(json_object('system',
            'http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category',
            'code', 'clinical-note')))),
        'subject', json_object('reference', 'Patient/' || SUBJECT_ID),
        'date', replace(coalesce(nullif(CHARTTIME, ''), CHARTDATE || ' 00:00:00'), ' ', 'T') || 'Z',
        'relatesTo', CASE WHEN relation IS NOT NULL THEN json_array(json_object('code', relation,
            'target', json_object('reference', 'DocumentReference/' || target))) END,
        'content', json_array(json_object('attachment', json_merge_patch(
            json_object('contentType', 'text/plain; charset=utf-8'),
            if(is_linked, json_object('url', 'Binary/' || id),
                json_object('data', to_base64(encode(TEXT))))))),
        'context', json_object('encounter', json_array(json_object('reference',
            concat('Encounter/', HADM_ID, if(HADM_ID LIKE '%0', '-bed', ''))))))) AS json
    FROM DOCUMENTS
    ORDER BY ROW_ID::BIGINT, id   -- the same seed, the same bytes
) TO '{folder}/DocumentReference.ndjson'
    (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\t');

-- The codes of a stay, with dots, as FHIR has them.
COPY (
    SELECT json_object('resourceType', 'Condition', 'id', concat('dx-', hadm, '-', seq),
        'verificationStatus', json_object('coding', json_array(json_object('system',
            'http://terminology.hl7.org/CodeSystem/condition-ver-status', 'code', 'confirmed'))),
        'category', json_array(json_object('coding', json_array(json_object('system',
            'http://terminology.hl7.org/CodeSystem/condition-category',
            'code', 'encounter-diagnosis')))),
        'code', json_object('coding', json_array(json_object('system',
            'http://hl7.org/fhir/sid/icd-10-cm',
            'code', concat_ws('.', left(icd10, 3), nullif(substr(icd10, 4), ''))))),
        'subject', json_object('reference', 'Patient/' || subject),
        'encounter', json_object('reference', 'Encounter/' || hadm)) AS json
    FROM codes
    ORDER BY hadm::BIGINT, seq::INTEGER
) TO '{folder}/Condition.ndjson' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\t');
