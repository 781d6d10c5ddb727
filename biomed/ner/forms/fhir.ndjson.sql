-- Candidates: Conditions, MedicationStatements and AllergyIntolerances of FHIR R4, one per line. In:
-- FOUND, the entities of a table, with `system`, `read_at`, `is_drug`, `codings` as JSON, and of drugs
-- `dosage` as JSON. Nobody has confirmed what a machine has read, so nothing is "confirmed".
-- No resource is made for what other people have; a drug without an allergy to it, where
-- the note denies one; and the reaction of an allergy as a Condition of its own.
COPY (
    WITH DRUGS AS (
        SELECT *, from_json(drug_attributes,
            '[{"kind": "VARCHAR", "start": "BIGINT", "text": "VARCHAR"}]') AS attributes
        FROM FOUND),
    STATED AS (
        SELECT *, [a.text FOR a IN attributes IF a.kind = 'reason'] AS reasons,
            [a.text FOR a IN attributes IF a.kind = 'reaction'] AS reactions,
            [a.start FOR a IN attributes IF a.kind = 'reaction'] AS reaction_starts
        FROM DRUGS),
    REACTIONS AS (
        SELECT "row", unnest(reaction_starts) AS start FROM STATED WHERE assertion = 'allergy'),
    NUMBERED AS (
        SELECT *, row_number() OVER () AS number FROM STATED ANTI JOIN REACTIONS
            ON STATED."row" = REACTIONS."row" AND STATED.start::DOUBLE = REACTIONS.start
        WHERE assertion <> 'other' AND drug_status IS DISTINCT FROM 'no allergy'
            AND drug_same_as IS NULL),
    PARTS AS (
        SELECT *, json_object('text', entity, 'coding', CASE WHEN codings <> '[]' THEN codings::JSON END) AS code,
            json_object('reference', 'Patient/' || patient_id) AS subject,
            CASE WHEN stay_id IS NOT NULL
                THEN json_object('reference', 'Encounter/' || stay_id) END AS encounter,
            CASE WHEN note_id IS NOT NULL
                THEN json_object('reference', 'DocumentReference/' || note_id) END AS document,
            json_array(json_object('time', strftime(read_at::TIMESTAMP, '%Y-%m-%dT%H:%M:%SZ'),
                'text', concat(format('Read in a note by {}, characters {} to {}, {}, score {:.4f}.',
                    system, start::DOUBLE::BIGINT, "end"::DOUBLE::BIGINT, assertion, score::DOUBLE),
                    CASE WHEN drug_status IS NOT NULL
                        THEN ' The note says: ' || drug_status || '.' END))) AS note
        FROM NUMBERED)
    SELECT json_merge_patch('{}', CASE WHEN assertion = 'allergy' THEN json_object(
        'resourceType', 'AllergyIntolerance', 'id', 'nlp-' || number,
        'clinicalStatus', json_object('coding', json_array(json_object(
            'system', 'http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical',
            'code', 'active'))),
        'verificationStatus', json_object('coding', json_array(json_object(
            'system', 'http://terminology.hl7.org/CodeSystem/allergyintolerance-verification',
            'code', 'unconfirmed'))),
        'category', CASE WHEN is_drug THEN json_array('medication') END,
        'code', code, 'patient', subject, 'encounter', encounter, 'note', note,
        -- The same words are one concept.
        'reaction', CASE WHEN len(reactions) > 0 THEN json_array(json_object('manifestation',
            [{'text': t} FOR t, i IN reactions IF list_position(reactions, t) = i])) END)
    WHEN is_drug THEN json_object(
        'resourceType', 'MedicationStatement', 'id', 'nlp-' || number,
        'status', CASE WHEN drug_status = 'held' THEN 'on-hold'
            WHEN drug_status = 'stopped' THEN 'stopped'
            WHEN assertion = 'present' THEN 'active' WHEN assertion = 'historical' THEN 'completed'
            WHEN assertion = 'negated' THEN 'not-taken' ELSE 'unknown' END,
        'medicationCodeableConcept', code, 'subject', subject, 'context', encounter,
        'derivedFrom', CASE WHEN document IS NOT NULL THEN json_array(document) END,
        'reasonCode', CASE WHEN len(reasons) > 0 THEN
            [{'text': t} FOR t, i IN reasons IF list_position(reasons, t) = i] END,
        'note', note, 'dosage', dosage::JSON)
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
) TO '{out}' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\t');
