-- The admission that each encounter belongs to: a ward is part of a department, which is part of the
-- stay, over 30 levels at most. An encounter is its own admission where nothing above it is one.
-- In:  fhir_Encounter; the classes and statuses of admissions, in upper case.
-- Out: fhir_stays (encounter, stay, and when the stay began and ended).
CREATE TABLE fhir_stays AS
WITH RECURSIVE encounters AS MATERIALIZED (
    SELECT id, nullif(part_of, id) AS part_of, admit_time, discharge_time,
        list_contains($classes::VARCHAR[], upper(class))
            AND list_contains($statuses::VARCHAR[], upper(status)) AS is_admission
    FROM fhir_Encounter
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY version_key(version) DESC NULLS LAST) = 1
),
above AS (
    SELECT id AS encounter, id AS whole, part_of, is_admission, 0 AS level FROM encounters
    UNION ALL
    SELECT above.encounter, parent.id, parent.part_of, parent.is_admission, level + 1
    FROM above JOIN encounters parent ON parent.id = above.part_of
    WHERE level < 30
)
SELECT encounter, stay, moment(admit_time) AS began, moment(discharge_time) AS ended
FROM (
    SELECT encounter, arg_max(whole, level) FILTER (is_admission) AS stay
    FROM above
    GROUP BY encounter
    HAVING max(level) < 30   -- encounters in a circle are no admission
)
LEFT JOIN encounters ON id = stay;
