-- R4 RiskAssessments; probabilityDecimal is a percentage, as R4 has it. In: RISKS.
COPY (
    SELECT json_object(
        'resourceType', 'RiskAssessment',
        'id', left(regexp_replace('risk-' || stay_id, '[^A-Za-z0-9.-]', '-', 'g'), 64),
        'status', 'final',
        'method', json_object('text', method),
        'subject', json_object('reference', 'Patient/' || patient_id),
        'encounter', json_object('reference', 'Encounter/' || stay_id),
        'occurrenceDateTime', strftime(prediction_time::TIMESTAMP, '%Y-%m-%dT%H:%M:%SZ'),
        'prediction', json_array(json_object(
            'outcome', json_object('text', event),
            'probabilityDecimal', round(100 * probability, 4),
            'rationale', format('The risk is {:.2f} percent (0 to 100).', 100 * probability)))) AS json
    FROM RISKS
) TO '{out}.fhir.ndjson' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER E'\t');
