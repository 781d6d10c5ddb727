-- Encounters as the table of admissions. What is part of an admission is none of its own, and of
-- several versions the latest counts.
SELECT fhir_Encounter.* REPLACE (CASE WHEN stay IS DISTINCT FROM id THEN part_of END AS part_of),
    CASE WHEN version_key(version) < max(version_key(version)) OVER (PARTITION BY id) THEN 'yes' END
        AS older_version
FROM fhir_Encounter
LEFT JOIN fhir_stays ON encounter = id
