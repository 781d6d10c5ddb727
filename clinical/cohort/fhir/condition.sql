-- The codes of diagnoses with their stay, but for those that were refuted or entered in error.
-- In:  fhir_Condition (codes and systems, one a line), fhir_stays.
WITH codings AS (
    SELECT encounter AS name, unnest(string_split(codes, chr(10))) AS code,
        unnest(string_split(systems, chr(10))) AS system
    FROM fhir_Condition
    WHERE coalesce(status, '') NOT IN ('refuted', 'entered-in-error')
)
SELECT coalesce(stay, name) AS stay_id, code, nullif(system, '') AS system
FROM codings LEFT JOIN fhir_stays ON encounter = name
