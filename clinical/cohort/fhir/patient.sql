-- Patients; of several versions the latest counts.
SELECT *,
    CASE WHEN version_key(version) < max(version_key(version)) OVER (PARTITION BY id) THEN 'yes' END
        AS older_version
FROM fhir_Patient
