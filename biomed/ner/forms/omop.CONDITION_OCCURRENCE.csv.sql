-- CONDITION_OCCURRENCE of OMOP CDM 5.4: what a note says the patient has, with the words of the note as the
-- source value. In: FOUND, as for NOTE_NLP. A condition needs a person whose id is a whole number and the
-- day of the note, which is its start; its end is not known. 32858 means that NLP has read it. What is
-- historical, possible or negated is in NOTE_NLP alone, and so is the reaction of an allergy.
COPY (
    WITH DATED AS (
        SELECT *, TRY_CAST(patient_id AS BIGINT) AS person_id,
            TRY_CAST(chart_time AS TIMESTAMP) AS noted_at
        FROM FOUND WHERE NOT is_drug AND assertion = 'present'),
    REACTIONS AS (
        SELECT "row", unnest([a.start FOR a IN from_json(drug_attributes,
            '[{"kind": "VARCHAR", "start": "BIGINT"}]') IF a.kind = 'reaction']) AS start
        FROM FOUND WHERE assertion = 'allergy'),
    CONDITIONS AS (
        SELECT DATED.* FROM DATED ANTI JOIN REACTIONS
            ON DATED."row" = REACTIONS."row" AND DATED.start::DOUBLE = REACTIONS.start)
    SELECT row_number() OVER () AS condition_occurrence_id, person_id,
        concept_id AS condition_concept_id,
        noted_at::DATE AS condition_start_date, noted_at AS condition_start_datetime,
        NULL AS condition_end_date, NULL AS condition_end_datetime,
        32858 AS condition_type_concept_id, 0 AS condition_status_concept_id, NULL AS stop_reason,
        NULL AS provider_id, TRY_CAST(stay_id AS BIGINT) AS visit_occurrence_id,
        NULL AS visit_detail_id, left(entity, 50) AS condition_source_value,
        source_concept_id AS condition_source_concept_id,
        NULL AS condition_status_source_value
    FROM CONDITIONS WHERE person_id IS NOT NULL AND noted_at IS NOT NULL
) TO '{out}' (HEADER);
