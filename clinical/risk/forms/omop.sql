-- A COHORT of the stays with a risk, and an OBSERVATION with each risk (CDM 5.4). In: RISKS.
-- 32858 is the type concept NLP; there is no concept of the risk itself.
COPY (
    SELECT 1 AS cohort_definition_id, patient_id::BIGINT AS subject_id,
        admit_time::DATE AS cohort_start_date, discharge_time::DATE AS cohort_end_date
    FROM RISKS
) TO '{out}.omop.COHORT.csv' (HEADER);

COPY (
    SELECT row_number() OVER () AS observation_id, patient_id::BIGINT AS person_id,
        0 AS observation_concept_id, prediction_time::DATE AS observation_date,
        prediction_time AS observation_datetime, 32858 AS observation_type_concept_id,
        probability AS value_as_number, NULL AS value_as_string, NULL AS value_as_concept_id,
        NULL AS qualifier_concept_id, NULL AS unit_concept_id, NULL AS provider_id,
        stay_id::BIGINT AS visit_occurrence_id, NULL AS visit_detail_id,
        left('risk: ' || event, 50) AS observation_source_value,
        0 AS observation_source_concept_id, NULL AS unit_source_value,
        left(method, 50) AS qualifier_source_value, NULL AS value_source_value,
        NULL AS observation_event_id, NULL AS obs_event_field_concept_id
    FROM RISKS
) TO '{out}.omop.OBSERVATION.csv' (HEADER);
