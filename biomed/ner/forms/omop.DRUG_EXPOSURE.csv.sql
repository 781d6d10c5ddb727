-- DRUG_EXPOSURE of OMOP CDM 5.4: drugs that a note says the patient takes, with `sig` as the note
-- writes it. In: FOUND, as for NOTE_NLP, with `dosage` and `route_concept`. An exposure needs a person
-- whose id is a whole number and the day of the note; its end is that of a duration stated in days,
-- weeks or months (of 30 days) for a single dosage, or else the same day. 32858 means that NLP has read it. Drugs that are stopped, held or only considered are in NOTE_NLP alone.
COPY (
    WITH DATED AS (
        SELECT *, TRY_CAST(patient_id AS BIGINT) AS person_id,
            TRY_CAST(chart_time AS TIMESTAMP) AS noted_at,
            from_json(dosage, '[{"text": "VARCHAR", "timing": {"repeat": {"boundsDuration":
                {"value": "DOUBLE", "code": "VARCHAR"}}}}]') AS doses
        FROM FOUND
        WHERE is_drug AND assertion = 'present' AND drug_same_as IS NULL
            AND coalesce(drug_status, '') NOT IN ('stopped', 'held', 'no allergy')),
    DOSED AS (
        SELECT *, array_to_string([d.text FOR d IN doses], '; ') AS sig,
            CASE WHEN len(doses) = 1 THEN doses[1].timing.repeat.boundsDuration END AS bounds
        FROM DATED),
    SUPPLIED AS (
        SELECT *, trunc(bounds.value * CASE bounds.code WHEN 'd' THEN 1 WHEN 'wk' THEN 7 WHEN 'mo' THEN 30 END)
            ::INTEGER AS supply
        FROM DOSED)
    SELECT row_number() OVER () AS drug_exposure_id, person_id,
        concept_id AS drug_concept_id,
        noted_at::DATE AS drug_exposure_start_date, noted_at AS drug_exposure_start_datetime,
        noted_at::DATE + coalesce(supply, 1) - 1 AS drug_exposure_end_date,
        NULL AS drug_exposure_end_datetime, NULL AS verbatim_end_date, 32858 AS drug_type_concept_id,
        NULL AS stop_reason, NULL AS refills, NULL AS quantity, supply AS days_supply, sig,
        coalesce(TRY_CAST(route_concept AS DOUBLE)::INTEGER, 0) AS route_concept_id, NULL AS lot_number, NULL AS provider_id,
        TRY_CAST(stay_id AS BIGINT) AS visit_occurrence_id, NULL AS visit_detail_id,
        left(entity, 50) AS drug_source_value,
        source_concept_id AS drug_source_concept_id,
        left(drug_route, 50) AS route_source_value, left(drug_unit, 50) AS dose_unit_source_value
    FROM SUPPLIED WHERE person_id IS NOT NULL AND noted_at IS NOT NULL
) TO '{out}' (HEADER);
