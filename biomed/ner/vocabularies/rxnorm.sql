-- RxNorm. In: RXNCONSO and perhaps RXNSAB; CHOSEN(type, label), and variables as for UMLS. Only RxNorm's
-- own names are read: the others have the licences of their sources.
CREATE TABLE ATOMS AS
    SELECT RXCUI, STR AS name, coalesce(label, 'Chemical') AS label,
        list_position(['IN', 'PIN', 'MIN', 'BN', 'SCD', 'SBD'], TTY) IS NOT NULL AS is_own_name
    FROM RXNCONSO LEFT JOIN CHOSEN ON TTY = "type"
    WHERE SAB = 'RXNORM' AND LAT = getvariable('language')
        AND list_contains(getvariable('suppress'), coalesce(SUPPRESS, 'N'))
        AND CASE WHEN len(getvariable('term_types')) = 0 THEN label IS NOT NULL
            ELSE list_contains(getvariable('term_types'), TTY) END;
INSERT INTO CONCEPTS SELECT DISTINCT 'RXNORM:' || RXCUI, label FROM ATOMS;
INSERT INTO NAMES SELECT 'RXNORM:' || RXCUI, name, CASE WHEN is_own_name THEN 0 ELSE 1 END, NULL,
    false, true FROM ATOMS;
INSERT INTO VERSIONS SELECT 'RXNORM', SVER FROM RXNSAB WHERE RSAB = 'RXNORM' AND SVER IS NOT NULL;
DROP TABLE ATOMS;
