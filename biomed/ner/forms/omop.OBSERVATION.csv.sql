-- OBSERVATION of OMOP CDM 5.4: allergies to drugs (concept 439224), with the drug's concept as the
-- value and the reaction as text. In: FOUND, as for NOTE_NLP. An observation needs a person whose id
-- is a whole number and the day of the note. 32858 means that NLP has read it.
COPY (
    WITH DATED AS (
        SELECT *, TRY_CAST(patient_id AS BIGINT) AS person_id,
            TRY_CAST(chart_time AS TIMESTAMP) AS noted_at
        FROM FOUND WHERE assertion = 'allergy' AND drug_same_as IS NULL)
    SELECT row_number() OVER () AS observation_id, person_id, 439224 AS observation_concept_id,
        noted_at::DATE AS observation_date, noted_at AS observation_datetime,
        32858 AS observation_type_concept_id, NULL AS value_as_number,
        left(drug_reaction, 60) AS value_as_string,
        concept_id AS value_as_concept_id,
        0 AS qualifier_concept_id, 0 AS unit_concept_id, NULL AS provider_id,
        TRY_CAST(stay_id AS BIGINT) AS visit_occurrence_id, NULL AS visit_detail_id,
        left(entity, 50) AS observation_source_value, 0 AS observation_source_concept_id,
        NULL AS unit_source_value, NULL AS qualifier_source_value,
        left(entity, 50) AS value_source_value, NULL AS observation_event_id,
        NULL AS obs_event_field_concept_id
    FROM DATED WHERE person_id IS NOT NULL AND noted_at IS NOT NULL
) TO '{out}' (HEADER);
