-- Predictions as meds-evaluation reads them: it wants a decision too. In: RISKS.
COPY (
    SELECT patient_id::BIGINT AS subject_id, prediction_time::TIMESTAMP AS prediction_time,
        boolean_value, alert AS predicted_boolean_value,
        probability::FLOAT AS predicted_boolean_probability
    FROM RISKS
) TO '{out}.meds.parquet';
