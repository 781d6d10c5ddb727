-- What reading changed in cells, and which files have bytes that are not in their encoding, as sentences.
-- In:  encodings; sequences KIND|TABLE.COLUMN, which count the cells that were changed.
-- Out: (sentence).
WITH cells AS (
    SELECT sequence_oid, last_value AS n,
        split_part(sequence_name, '|', 1) AS kind,
        sequence_name[instr(sequence_name, '|') + 1:] AS name
    FROM duckdb_sequences()
    WHERE last_value IS NOT NULL AND contains(sequence_name, '|')
),
numbered AS (
    SELECT *, row_number() OVER (PARTITION BY kind ORDER BY sequence_oid) AS number FROM cells
),
sentences AS (
    SELECT min(sequence_oid) AS position, format('{} (cells): {}{}.', kind,
        string_agg(format('{} ({:,})', name, n), ', ' ORDER BY number) FILTER (number <= 10),
        if(count(*) > 10, ', and more', '')) AS sentence
    FROM numbered
    GROUP BY kind
    UNION ALL
    -- A file without a count of its rows is named with its damaged ones only.
    SELECT 1e9 + row_number() OVER (ORDER BY file), format('{:,} of {:,} rows of {} have bytes that are '
        'not in the encoding, read as U+FFFD: name the encoding of the file, such as cp1252',
        damaged, coalesce(rows, damaged), file)
    FROM encodings
)
SELECT sentence FROM sentences ORDER BY position;
