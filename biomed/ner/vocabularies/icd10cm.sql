-- ICD-10-CM. In: TABULAR(code, name, preference, chapter, version) from the tabular list; CHOSEN(type, label).
INSERT INTO CONCEPTS SELECT DISTINCT 'ICD10CM:' || code, label FROM TABULAR JOIN CHOSEN ON chapter = "type";
INSERT INTO NAMES SELECT 'ICD10CM:' || code, name, preference, NULL, false, true
    FROM TABULAR JOIN CHOSEN ON chapter = "type";
INSERT INTO VERSIONS SELECT DISTINCT 'ICD10CM', version FROM TABULAR WHERE version IS NOT NULL;
