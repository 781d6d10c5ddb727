-- The UMLS Metathesaurus. In: MRCONSO, MRSTY and perhaps MRSAB; CHOSEN(type, label), SYSTEMS(vocabulary,
-- prefix); the variables language, vocabularies, term_types and suppress. A name whose code is an
-- abbreviation of a source (AA, AB) is left out unless its term type is chosen.
CREATE TABLE KEPT AS
    SELECT CUI, min(label) AS label FROM MRSTY JOIN CHOSEN ON TUI = "type" GROUP BY CUI;
CREATE TABLE ATOMS AS
    SELECT CUI, label, prefix, CODE,
        -- "Heart failure (disorder)" is a name with its semantic tag.
        CASE WHEN TTY = 'FN' THEN regexp_replace(STR, ' \([^()]*\)$', '') ELSE STR END AS name,
        CASE WHEN TS = 'P' AND STT = 'PF' AND ISPREF = 'Y' THEN 0
            ELSE coalesce(nullif(list_position(
                ['PT', 'MH', 'PN', 'PF', 'IN', 'HT', 'PEN', 'NM', 'BN', 'FN', 'ET', 'SY'], TTY), 0), 99)
            END AS preference
    FROM MRCONSO JOIN KEPT USING (CUI) LEFT JOIN SYSTEMS ON SAB = vocabulary
    WHERE LAT = getvariable('language') AND list_contains(getvariable('suppress'), SUPPRESS)
        AND (len(getvariable('vocabularies')) = 0 OR list_contains(getvariable('vocabularies'), SAB))
        AND CASE WHEN len(getvariable('term_types')) = 0 THEN TTY NOT IN ('AA', 'AB')
            ELSE list_contains(getvariable('term_types'), TTY) END;
INSERT INTO CONCEPTS SELECT 'UMLS:' || CUI, label FROM KEPT SEMI JOIN ATOMS USING (CUI);
INSERT INTO NAMES SELECT 'UMLS:' || CUI, name, preference, NULL, false, true FROM ATOMS;
INSERT INTO CODES (concept, code) SELECT DISTINCT 'UMLS:' || CUI, prefix || ':' || CODE FROM ATOMS
    WHERE prefix <> 'UMLS' AND CODE <> 'NOCODE';
INSERT INTO DISPLAYS SELECT prefix || ':' || CODE, arg_min(name, preference) FROM ATOMS
    WHERE prefix <> 'UMLS' AND CODE <> 'NOCODE' GROUP BY ALL;
INSERT INTO VERSIONS SELECT prefix, CASE WHEN RSAB = 'SNOMEDCT_US'
        THEN 'http://snomed.info/sct/731000124108/version/' || replace(SVER, '_', '') ELSE SVER END
    FROM MRSAB JOIN SYSTEMS ON RSAB = vocabulary WHERE SVER IS NOT NULL AND CURVER = 'Y';
DROP TABLE ATOMS;
DROP TABLE KEPT;
