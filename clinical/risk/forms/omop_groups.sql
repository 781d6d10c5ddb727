-- A CONDITION_OCCURRENCE for each proposed group of codes (CDM 5.4). In: GROUPS.
-- 32858 is the type concept NLP, 32899 the status "preliminary diagnosis"; a group has no concept.
COPY (
    SELECT row_number() OVER () AS condition_occurrence_id, patient_id::BIGINT AS person_id,
        0 AS condition_concept_id, prediction_time::DATE AS condition_start_date,
        prediction_time AS condition_start_datetime, NULL AS condition_end_date,
        NULL AS condition_end_datetime, 32858 AS condition_type_concept_id,
        32899 AS condition_status_concept_id, NULL AS stop_reason, NULL AS provider_id,
        stay_id::BIGINT AS visit_occurrence_id, NULL AS visit_detail_id,
        left("group", 50) AS condition_source_value, 0 AS condition_source_concept_id,
        format('proposed, probability {:.3f}', probability) AS condition_status_source_value
    FROM GROUPS
) TO '{out}.omop.CONDITION_OCCURRENCE.csv' (HEADER);
