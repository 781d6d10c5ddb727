-- The row numbers of notes with an unreadable time.
-- In:  raw_notes.  Out: appended to unreadable_notes.
INSERT INTO unreadable_notes
SELECT getvariable('note_table'), row, coalesce(clean(note_id), id_text(stay_id))
FROM raw_notes
WHERE is_unreadable(chart_time) OR is_unreadable(chart_date);
