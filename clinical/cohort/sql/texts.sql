-- The notes that are used, each once, sorted by stay so that a few stays can be read at a time.
-- In:  notes; note_position, a rule of clinical/stays/note_rules.py.
-- Out: positions, which sort the notes of a stay; repeated_notes, texts.

CREATE TABLE positions AS
SELECT rowid AS note, note_position(charted_by, kind, note_id) AS position
FROM notes
WHERE status = 'used';

-- The first of several copies is read. A copy in another episode of the patient is a note of that one.
CREATE TABLE repeated_notes AS
SELECT note
FROM notes JOIN positions ON note = notes.rowid
QUALIFY row_number() OVER (PARTITION BY stay_no, text_hash ORDER BY position, source, row) > 1;

CREATE TABLE texts AS
SELECT stay_no, position, text
FROM notes
JOIN positions ON note = notes.rowid
ANTI JOIN repeated_notes USING (note)
ORDER BY stay_no;
