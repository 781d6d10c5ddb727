-- OHDSI's standardised vocabularies, as Athena gives them. In: CONCEPT, RELATIONSHIP and perhaps SYNONYM
-- and VOCABULARY; CHOSEN(type, label), SYSTEMS(vocabulary, prefix); the variables language and vocabularies.
-- A concept that is not standard gives its names to the standard concepts that it "maps to". Its own
-- code and concept id are the source of such a name.
CREATE TABLE VALID AS
    SELECT concept_id, concept_name, vocabulary_id, prefix, prefix || ':' || concept_code AS code, label,
        standard_concept = 'S' AND invalid_reason IS NULL AS is_standard
    FROM CONCEPT LEFT JOIN CHOSEN ON domain_id = "type" LEFT JOIN SYSTEMS ON vocabulary_id = vocabulary;
CREATE TABLE MAPS AS
    SELECT concept_id_1 AS concept_id, concept_id_2 AS standard_id FROM RELATIONSHIP
    WHERE relationship_id = 'Maps to' AND invalid_reason IS NULL AND concept_id_1 <> concept_id_2;
CREATE TABLE NAMED AS
    SELECT concept_id, concept_name AS name, 0 AS preference FROM CONCEPT
    UNION ALL
    SELECT concept_id, concept_synonym_name, 1 FROM SYNONYM
    WHERE language_concept_id = getvariable('language');
CREATE TABLE STANDARD AS
    SELECT * FROM VALID WHERE is_standard AND label IS NOT NULL AND (len(getvariable('vocabularies')) = 0
        OR list_contains(getvariable('vocabularies'), vocabulary_id));
INSERT INTO CONCEPTS SELECT 'OMOP:' || concept_id, label FROM STANDARD;
INSERT INTO CODES (concept, code) SELECT 'OMOP:' || concept_id, code FROM STANDARD WHERE code IS NOT NULL;
INSERT INTO DISPLAYS SELECT code, concept_name FROM VALID WHERE code IS NOT NULL;
INSERT INTO NAMES
    SELECT 'OMOP:' || concept_id, name, preference, NULL, false, true
    FROM NAMED SEMI JOIN STANDARD USING (concept_id);
INSERT INTO NAMES
    SELECT 'OMOP:' || standard_id, name, preference + 2, concat_ws('|', code, 'OMOP:' || concept_id),
        false, true
    FROM NAMED JOIN MAPS USING (concept_id) JOIN VALID USING (concept_id)
        SEMI JOIN STANDARD ON standard_id = STANDARD.concept_id
    WHERE len(getvariable('vocabularies')) = 0 OR list_contains(getvariable('vocabularies'), vocabulary_id);
-- The standard concepts of codes in other releases.
CREATE TABLE CROSSWALK AS
    SELECT code, 'OMOP:' || concept_id AS standard, concept_name AS name, label FROM VALID
    WHERE is_standard AND code IS NOT NULL
    UNION ALL
    SELECT VALID.code, 'OMOP:' || standard_id, target.concept_name, target.label
    FROM VALID JOIN MAPS USING (concept_id) JOIN VALID AS target ON standard_id = target.concept_id
    WHERE VALID.code IS NOT NULL AND target.is_standard;
INSERT INTO VERSIONS SELECT prefix, vocabulary_version FROM VOCABULARY
    JOIN SYSTEMS ON vocabulary_id = vocabulary WHERE vocabulary_version IS NOT NULL;
DROP TABLE VALID;
DROP TABLE MAPS;
DROP TABLE NAMED;
DROP TABLE STANDARD;
