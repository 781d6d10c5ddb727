-- Notes of a stay with one id and different texts, in tables without documents. If they begin alike they are
-- versions: of these the signed one counts, or the latest. Others are listed.
-- In:  notes.  Out: same_ids (the notes that are left with one id and different texts); the status of notes.
CREATE TABLE same_ids AS
SELECT source, stay_no, note_id FROM notes
WHERE status = 'used' AND note_id IS NOT NULL
  AND source NOT IN ('DocumentReference', 'Composition', 'DiagnosticReport')
GROUP BY ALL
HAVING min(text_hash) <> max(text_hash);

UPDATE notes SET status = 'older_version', text = NULL, text_hash = NULL
FROM (
    SELECT n.rowid AS note FROM notes n
    JOIN same_ids USING (source, stay_no, note_id)
    WHERE status = 'used'
    QUALIFY row_number() OVER (
        PARTITION BY source, stay_no, note_id, left(trim(text), 40)
        ORDER BY regexp_matches(upper(state), '^(SIGNED|FINAL|AUTHENTICATED|COMPLETED?|AMENDED|CORRECTED)\b')
            DESC NULLS LAST, charted_by DESC NULLS LAST, row DESC
    ) > 1
) older
WHERE note = notes.rowid;

DELETE FROM same_ids WHERE (source, stay_no, note_id) NOT IN (
    SELECT (source, stay_no, note_id) FROM notes WHERE status = 'used' AND note_id IS NOT NULL
    GROUP BY source, stay_no, note_id HAVING min(text_hash) <> max(text_hash));
