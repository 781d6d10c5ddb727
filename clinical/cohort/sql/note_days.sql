-- Early notes of a table whose chart times are dates, judged again: they count to the end of their day.
-- In:  notes, note_stays; judge_note; the name of the table.  Out: the status of notes.
UPDATE notes SET
    status = verdict.status,
    charted_by = verdict.charted_by,
    text = CASE WHEN verdict.status = 'used' THEN text END,
    text_hash = CASE WHEN verdict.status = 'used' THEN text_hash END
FROM (
    SELECT n.rowid AS note, judge_note(row(NULL, false, NULL, upper_clean(category), kind, note_id, charted_by,
        true, NULL, false, cutoff, clock_offset_us, NULL, NULL, NULL)) AS verdict
    FROM notes n
    JOIN (SELECT stay_no, any_value(cutoff) AS cutoff, any_value(clock_offset_us) AS clock_offset_us
          FROM note_stays WHERE stay_no IS NOT NULL GROUP BY stay_no) USING (stay_no)
    WHERE source = $table AND status = 'used' AND is_midnight
) judged
WHERE note = notes.rowid;
