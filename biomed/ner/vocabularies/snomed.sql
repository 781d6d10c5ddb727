-- SNOMED CT, release format 2. In: DESCRIPTION, CONCEPT and LANGUAGE; CHOSEN(type, label); the variable
-- language: a code, such as en, or the id of a language reference set. Of each component the latest
-- row counts, so a Full release is read like a Snapshot.
CREATE TABLE ACTIVE AS
    SELECT id, moduleId, effectiveTime FROM CONCEPT
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY effectiveTime DESC) = 1 AND active = '1';
CREATE TABLE TERMS AS
    SELECT id, conceptId, typeId, languageCode, term FROM DESCRIPTION
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY effectiveTime DESC) = 1 AND active = '1';
-- The words in brackets of the fully specified name are the semantic tag.
CREATE TABLE KEPT AS
    SELECT conceptId, min(label) AS label FROM TERMS
        JOIN CHOSEN ON regexp_extract(term, '\(([^()]+)\)$', 1) = "type"
        SEMI JOIN ACTIVE ON conceptId = ACTIVE.id
    WHERE typeId = '900000000000003001' GROUP BY conceptId;
CREATE TABLE ACCEPTED AS
    SELECT refsetId, referencedComponentId, acceptabilityId FROM LANGUAGE
    QUALIFY row_number() OVER (PARTITION BY id ORDER BY effectiveTime DESC) = 1 AND active = '1';
-- Of a language, US English if it is there, or else the largest reference set.
CREATE TABLE REFSET AS
    SELECT refsetId FROM ACCEPTED JOIN TERMS ON referencedComponentId = TERMS.id
    WHERE getvariable('language') IN (refsetId, languageCode)
    GROUP BY refsetId ORDER BY refsetId = '900000000000509007' DESC, count(*) DESC LIMIT 1;
INSERT INTO CONCEPTS SELECT 'SNOMED:' || conceptId, label FROM KEPT;
INSERT INTO NAMES
    SELECT 'SNOMED:' || conceptId, CASE WHEN typeId = '900000000000003001'
            THEN regexp_replace(term, ' \([^()]*\)$', '') ELSE term END,
        CASE WHEN typeId = '900000000000003001' THEN 2
            WHEN acceptabilityId = '900000000000548007' THEN 0 ELSE 1 END, NULL, false, true
    FROM TERMS SEMI JOIN KEPT USING (conceptId)
        JOIN ACCEPTED ON referencedComponentId = TERMS.id SEMI JOIN REFSET USING (refsetId)
    WHERE typeId IN ('900000000000003001', '900000000000013009');
-- The edition is the extension's module if there is one, and else the International Edition's.
INSERT INTO VERSIONS
    SELECT 'SNOMED', format('http://snomed.info/sct/{}/version/{}',
        coalesce(mode(moduleId) FILTER (moduleId NOT IN ('900000000000207008', '900000000000012004')),
            '900000000000207008'), max(effectiveTime))
    FROM CONCEPT HAVING count(*) > 0;
DROP TABLE ACTIVE;
DROP TABLE TERMS;
DROP TABLE KEPT;
DROP TABLE ACCEPTED;
DROP TABLE REFSET;
