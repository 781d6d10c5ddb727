-- NOTE_NLP of OMOP CDM 5.4. In: FOUND, the entities of a table, with `system`, `read_at`, and the numbers
-- of OMOP's concepts: `concept_id`, and `source_concept_id` where the name was that of another concept.
-- A patient has what is present or historical, and not what is negated, another person's or a drug
-- that the patient is allergic to; what is possible is neither. 0 means no concept. The snippet would be
-- text around the entity, and is left out.
COPY (
    SELECT row_number() OVER () AS note_nlp_id, note_id::BIGINT AS note_id,
        0 AS section_concept_id, NULL AS snippet, start::DOUBLE::BIGINT::VARCHAR AS "offset",
        left(entity, 250) AS lexical_variant,
        concept_id AS note_nlp_concept_id,
        source_concept_id AS note_nlp_source_concept_id, left(system, 250) AS nlp_system,
        read_at::DATE AS nlp_date, read_at AS nlp_datetime,
        CASE WHEN assertion IN ('present', 'historical') THEN 'Y'
            WHEN assertion IN ('negated', 'other', 'allergy') THEN 'N' END AS term_exists,
        CASE assertion WHEN 'historical' THEN 'past' ELSE 'present' END AS term_temporal,
        left(concat_ws(',', 'assertion=' || assertion, 'label=' || label,
            format('score={:.4f}', score::DOUBLE), 'status=' || drug_status, 'dose=' || drug_dose,
            'unit=' || drug_unit, 'route=' || drug_route, 'frequency=' || drug_frequency,
            'duration=' || drug_duration), 2000) AS term_modifiers
    FROM FOUND
) TO '{out}' (HEADER);
