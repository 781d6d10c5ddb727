-- Files with bytes that are not in the encoding that they were read by. Where most rows have such
-- bytes, the encoding is wrong, and one issue stands for them all.
-- In:  listed_faults (source, line, problem), admissions, patients_read, notes, rules.
-- Out: file_faults; encodings (file, damaged, rows).

CREATE TABLE file_faults AS
SELECT source::VARCHAR AS source, line::BIGINT AS line, problem::VARCHAR AS problem FROM listed_faults;

CREATE TABLE encodings AS
WITH sizes AS (
    SELECT admissions_table AS name, (SELECT count(*) FROM admissions) AS rows FROM rules
    UNION ALL
    SELECT patients_table, (SELECT count(*) FROM patients_read) FROM rules
    UNION ALL
    SELECT source, count(*) FROM notes GROUP BY source
)
SELECT file_faults.source AS file, count(*) AS damaged, any_value(sizes.rows) AS rows
FROM file_faults
LEFT JOIN sizes ON starts_with(lower(file_faults.source), concat(lower(sizes.name), '.'))
WHERE problem = (SELECT undecodable FROM rules)
GROUP BY file;

DELETE FROM file_faults
USING encodings
WHERE problem = (SELECT undecodable FROM rules) AND source = file AND damaged * 2 > rows;

INSERT INTO file_faults
SELECT file, NULL, concat(undecodable, ' in ', damaged, ' of ', rows, ' rows')
FROM encodings, rules
WHERE damaged * 2 > rows;
