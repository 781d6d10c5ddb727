-- Records that were merged: all ids that links join are one patient, whose id is the one that no link
-- replaces.
-- In:  raw_patients (replaced_by and replaces hold ids, one a line).
-- Out: links, circles, merged (every id that a link names, with the id that is current).

CREATE TABLE links AS
WITH told AS (
    SELECT row, patient_id, patient_id AS old, unnest(string_split(replaced_by, chr(10))) AS new, new AS target
    FROM raw_patients
    WHERE other IS NULL AND replaced_by IS NOT NULL
    UNION ALL
    SELECT row, patient_id, unnest(string_split(replaces, chr(10))) AS old, patient_id, old
    FROM raw_patients
    WHERE other IS NULL AND replaces IS NOT NULL
)
SELECT row, id_text(patient_id) AS patient_text, id_key(target) AS target,
    id_key(old) AS old, id_text(old) AS old_text, id_key(new) AS new, id_text(new) AS new_text
FROM told
WHERE id_key(old) IS NOT NULL AND id_key(new) IS NOT NULL;

CREATE TABLE circles AS
WITH RECURSIVE walk AS (
    SELECT old AS id, new AS reached FROM links
    UNION
    SELECT walk.id, links.new FROM walk JOIN links ON links.old = walk.reached
)
SELECT id FROM walk WHERE id = reached;

CREATE TABLE merged AS
WITH RECURSIVE pairs AS MATERIALIZED (
    SELECT old AS id, old_text AS text, new AS linked FROM links
    UNION
    SELECT new, new_text, old FROM links
),
people(id, person) USING KEY (id) AS (   -- the first of all ids that links join stands for the person
    SELECT DISTINCT id, id FROM pairs
    UNION
    SELECT linked, min(people.person)
    FROM people
    JOIN pairs USING (id)
    JOIN recurring.people AS known ON known.id = linked
    WHERE people.person < known.person
    GROUP BY linked
),
ranked AS (
    SELECT id, person, text,
        id NOT IN (SELECT old FROM links WHERE old <> new) AS is_last,
        id IN (FROM circles) AS in_circle,
        id IN (SELECT id_key(patient_id) FROM raw_patients WHERE patient_id IS NOT NULL) AS is_listed
    FROM people
    JOIN (SELECT id, min(text) AS text FROM pairs GROUP BY id) USING (id)
)
SELECT id, is_last, text,
    count_if(is_last) OVER (PARTITION BY person) AS n_last,
    -- In a circle there is no last one.
    first_value(id) OVER in_order AS current_id,
    first_value(text) OVER in_order AS current_text
FROM ranked
WINDOW in_order AS (PARTITION BY person ORDER BY NOT is_last, NOT in_circle, NOT is_listed, id);
