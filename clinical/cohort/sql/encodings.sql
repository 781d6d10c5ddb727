-- Files with bytes that are not in the encoding that they were read by. Where most rows have such
-- bytes, the encoding is wrong, and one issue stands for them all.
-- In:  flaws, admissions, patients_read, notes, the variable undecodable.
-- Out: encodings (file, damaged, rows); changes flaws.

CREATE TABLE encodings AS
WITH sizes AS (
    SELECT getvariable('admissions_table') AS name, count(*) AS rows FROM admissions
    UNION ALL
    SELECT getvariable('patients_table'), count(*) FROM patients_read
    UNION ALL
    SELECT source, count(*) FROM notes GROUP BY source
)
SELECT flaws.source AS file, count(*) AS damaged, any_value(sizes.rows) AS rows
FROM flaws
LEFT JOIN sizes ON starts_with(lower(flaws.source), concat(lower(sizes.name), '.'))
WHERE problem = getvariable('undecodable')
GROUP BY file;

DELETE FROM flaws
USING encodings
WHERE problem = getvariable('undecodable') AND source = file AND damaged * 2 > rows;

INSERT INTO flaws
SELECT file, NULL, concat(getvariable('undecodable'), ' in ', damaged, ' of ', rows, ' rows')
FROM encodings
WHERE damaged * 2 > rows;
