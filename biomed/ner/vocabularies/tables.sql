-- Tables of names. In: ROWS(name, id, codes, position, listed); `codes` are separated by "|". An id that is
-- a code of a release's concept is that concept.
CREATE OR REPLACE TEMP TABLE OWNERS AS
    SELECT code, min(concept) AS owner
    FROM (SELECT concept AS code, concept FROM CONCEPTS UNION ALL SELECT code, concept FROM CODES)
        SEMI JOIN ROWS ON code = id
    GROUP BY code;
CREATE OR REPLACE TEMP TABLE PLACED AS
    SELECT coalesce(owner, id) AS concept, ROWS.* FROM ROWS LEFT JOIN OWNERS ON id = code;
INSERT INTO CONCEPTS
    SELECT DISTINCT concept, NULL FROM PLACED ANTI JOIN CONCEPTS USING (concept);
INSERT INTO NAMES SELECT concept, name, position, NULL, listed, false FROM PLACED;
INSERT INTO CODES
    SELECT concept, code, min(number)
    FROM (SELECT concept, unnest(string_split(codes, '|')) AS code,
            generate_subscripts(string_split(codes, '|'), 1) AS number
        FROM PLACED WHERE codes <> '')
    GROUP BY concept, code;
