-- The notes that are used, each once, sorted by stay so that a few stays can be read at a time.
-- In:  notes.  Out: repeated_notes, texts.

-- The first of several copies is read. A copy in another episode of the patient is a note of that one.
CREATE TABLE repeated_notes AS
SELECT rowid AS note
FROM notes
WHERE status = 'used'
QUALIFY row_number() OVER (PARTITION BY stay_no, text_hash ORDER BY position, source, row) > 1;

CREATE TABLE texts AS
SELECT stay_no, position, text
FROM notes
ANTI JOIN repeated_notes ON note = notes.rowid
WHERE status = 'used'
ORDER BY stay_no;
