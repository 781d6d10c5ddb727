-- The notes that are used, each once, sorted by stay so that a few stays can be read at a time.
-- In:  notes.  Out: repeated_notes, texts.

-- A copy, whatever its id, adds no information, but windows that the rule would count. The first in
-- time is read. A copy in another episode of the patient is a note of that episode.
CREATE TABLE repeated_notes AS
SELECT rowid AS note
FROM notes
WHERE status = 'used'
QUALIFY row_number() OVER (
    PARTITION BY stay_no, text_hash
    ORDER BY charted_by NULLS LAST, is_addendum, note_id NULLS LAST, source, row
) > 1;

CREATE TABLE texts AS
SELECT
    stay_no,
    charted_by,
    is_addendum,
    -- The number at the end of a note id orders notes of the same time: 7, '10000032-DS-7'.
    try_cast(regexp_extract(note_id, '[0-9]+$') AS UBIGINT) AS note_number,
    note_id,
    text
FROM notes
ANTI JOIN repeated_notes ON note = notes.rowid
WHERE status = 'used'
ORDER BY stay_no;
