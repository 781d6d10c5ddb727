-- Candidates: Conditions and MedicationStatements of FHIR R4, one a line. In: FOUND, the entities of
-- a table, with `system`, `read_at` and `is_drug`. Nobody has confirmed what a machine has read, so
-- nothing is "confirmed". What other people have is no resource of the patient.
COPY (
    WITH SYSTEMS(prefix, uri) AS (VALUES
        ('snomed', 'http://snomed.info/sct'), ('icd10cm', 'http://hl7.org/fhir/sid/icd-10-cm'),
        ('rxnorm', 'http://www.nlm.nih.gov/research/umls/rxnorm'),
        ('umls', 'http://terminology.hl7.org/CodeSystem/umls'),
        ('mesh', 'http://terminology.hl7.org/CodeSystem/MSH'), ('omim', 'http://www.omim.org'),
        ('mondo', 'http://purl.obolibrary.org/obo/mondo.owl'),
        ('drugbank', 'http://www.drugbank.ca')),
    NUMBERED AS (SELECT *, row_number() OVER () AS number FROM FOUND WHERE assertion <> 'other'),
    CODES AS (
        SELECT number, unnest(string_split(concat_ws('|', entity_id, entity_codes), '|')) AS code
        FROM NUMBERED),
    CODINGS AS (
        SELECT number, list(json_object('system', uri, 'code', substr(code, strpos(code, ':') + 1))
            ORDER BY prefix) AS coding
        FROM CODES JOIN SYSTEMS ON lower(split_part(code, ':', 1)) = prefix GROUP BY number),
    PARTS AS (
        SELECT *, json_object('text', entity, 'coding', coding) AS code,
            json_object('reference', 'Patient/' || patient_id) AS subject,
            CASE WHEN stay_id IS NOT NULL
                THEN json_object('reference', 'Encounter/' || stay_id) END AS encounter,
            CASE WHEN note_id IS NOT NULL
                THEN json_object('reference', 'DocumentReference/' || note_id) END AS document,
            json_array(json_object('time', strftime(read_at::TIMESTAMP, '%Y-%m-%dT%H:%M:%SZ'),
                'text', format('Read in a note by {}, characters {} to {}, {}, score {:.4f}.',
                    system, start::DOUBLE::BIGINT, "end"::DOUBLE::BIGINT, assertion, score::DOUBLE))) AS note
        FROM NUMBERED LEFT JOIN CODINGS USING (number))
    SELECT json_merge_patch('{}', CASE WHEN is_drug THEN json_object(
        'resourceType', 'MedicationStatement', 'id', 'nlp-' || number,
        'status', CASE assertion WHEN 'present' THEN 'active' WHEN 'historical' THEN 'completed'
            WHEN 'negated' THEN 'not-taken' ELSE 'unknown' END,
        'medicationCodeableConcept', code, 'subject', subject, 'context', encounter,
        'derivedFrom', CASE WHEN document IS NOT NULL THEN json_array(document) END, 'note', note)
    ELSE json_object(
        'resourceType', 'Condition', 'id', 'nlp-' || number,
        'clinicalStatus', CASE assertion WHEN 'historical' THEN json_object('coding', json_array(
            json_object('system', 'http://terminology.hl7.org/CodeSystem/condition-clinical',
                'code', 'inactive'))) END,
        'verificationStatus', json_object('coding', json_array(json_object(
            'system', 'http://terminology.hl7.org/CodeSystem/condition-ver-status',
            'code', CASE assertion WHEN 'negated' THEN 'refuted'
                WHEN 'possible' THEN 'provisional' ELSE 'unconfirmed' END))),
        'code', code, 'subject', subject, 'encounter', encounter,
        'evidence', CASE WHEN document IS NOT NULL
            THEN json_array(json_object('detail', json_array(document))) END, 'note', note)
    END)
    FROM PARTS ORDER BY number
) TO '{out}.fhir.ndjson' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\t');
