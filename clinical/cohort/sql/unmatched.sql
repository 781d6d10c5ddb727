-- The most frequent values that no list of the definition gives a meaning, with counts.
-- In:  admissions, places, rules.  Out: unmatched.
CREATE TABLE unmatched AS
WITH seen AS (
    SELECT 'discharge_location' AS name, discharge_location AS value, died OR alive OR still AS is_known
    FROM admissions JOIN places ON place = discharge_location
    UNION ALL
    SELECT 'admission_type', admission_type,
        list_contains(planned_types || newborn_types || observation_types, admission_type)
    FROM admissions, rules
)
SELECT name, left(value, 60) AS text, count(*) AS n
FROM seen
WHERE NOT is_known
GROUP BY 1, 2
QUALIFY row_number() OVER (PARTITION BY name ORDER BY n DESC, text) <= 100
ORDER BY n DESC, text;
