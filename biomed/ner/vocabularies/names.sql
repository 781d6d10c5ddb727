-- The names of all releases and tables, ready to be looked up. In: CONCEPTS(concept, label),
-- NAMES(concept, name, preference, source, listed, is_release), CODES(concept, code, position),
-- CROSSWALK(code, standard, name, label); the variables prefix, crosswalk and keeps_all.
-- The standard concept of OMOP: by the concept's id, and then by its codes in SNOMED CT and RxNorm.
INSERT INTO CODES
    SELECT concept, arg_min(standard, ROW(CASE WHEN code = concept THEN 0
        WHEN starts_with(code, 'SNOMED:') OR starts_with(code, 'RXNORM:') THEN 1 ELSE 2 END, code, standard)), -1
    FROM (SELECT concept, concept AS code FROM CONCEPTS UNION ALL SELECT concept, code FROM CODES)
        JOIN CROSSWALK USING (code)
    WHERE getvariable('crosswalk') AND NOT starts_with(concept, 'OMOP:') GROUP BY concept;
-- The id of each concept: its code in the system of the ids if it has one.
CREATE TABLE IDS AS
    SELECT concept, coalesce(arg_min(code, ROW(position, code)) FILTER (starts_with(code, getvariable('prefix'))),
        CASE WHEN getvariable('keeps_all') THEN concept END) AS id
    FROM (SELECT concept, concept AS code, -2 AS position FROM CONCEPTS
        UNION ALL SELECT concept, code, position FROM CODES)
    GROUP BY concept HAVING id IS NOT NULL;
CREATE TABLE NUMBERED AS
    SELECT row_number() OVER (ORDER BY first NULLS LAST, id) AS number, id, name, label, name_count
    FROM (
        SELECT id, arg_min(name, ROW(preference, name)) AS name, min(label) AS label,
            min(preference) FILTER (NOT is_release) AS first, count(DISTINCT name) AS name_count
        FROM NAMES JOIN IDS USING (concept) JOIN CONCEPTS USING (concept) GROUP BY id);
CREATE TABLE CODES_OF AS
    SELECT id, string_agg(code, '|' ORDER BY position, code) AS codes
    FROM (
        SELECT id, code, min(position) AS position
        FROM (SELECT concept, concept AS code, -2 AS position FROM CONCEPTS
            UNION ALL SELECT concept, code, position FROM CODES) JOIN IDS USING (concept)
        WHERE code <> id GROUP BY id, code)
    GROUP BY id;
