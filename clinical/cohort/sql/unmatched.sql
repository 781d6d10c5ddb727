-- The most frequent values that no list of the definition gives a meaning, with counts.
-- In:  admissions, rules.  Out: (name, text, n).
WITH seen AS (
    SELECT 'discharge_location' AS name, discharge_location AS value, died_locations AS meant
    FROM admissions, rules
    UNION ALL
    SELECT 'admission_type', admission_type, planned_types || newborn_types || observation_types
    FROM admissions, rules
)
SELECT name, left(value, 60) AS text, count(*) AS n
FROM seen
WHERE NOT list_contains(meant, value)
GROUP BY 1, 2
QUALIFY row_number() OVER (PARTITION BY name ORDER BY n DESC, text) <= 100
ORDER BY n DESC, text;
