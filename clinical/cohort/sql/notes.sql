-- One pass over a table of notes: the status of each, and the text of those that are used.
-- In:  raw_notes (row, then our columns as text), note_stays, merged, rules; judge_note and copy_text,
--      the rules of clinical/stays/note_rules.py.
-- Out: appended to notes.

INSERT INTO notes
WITH dated AS (      -- each macro once: binding it costs a millisecond
    SELECT *, moment(chart_time) AS charted_at, moment(chart_date) AS charted_on,
        CASE WHEN contains(chart_time, ':') AND charted_at IS NOT NULL THEN has_offset(chart_time) END AS has_offset
    FROM raw_notes
    WHERE other IS NULL
),
read AS (
    SELECT
        n.row,
        s.stay_no,
        clean(n.note_id) AS note_id,
        id_text(n.stay_id) AS stay_id,
        CASE WHEN id_text(n.stay_id) IS NULL THEN 'no_stay_id'
             WHEN s.stay_id IS NULL THEN 'unknown_stay'
             WHEN coalesce(m.current_id, id_key(n.patient_id)) <> s.patient_id THEN 'other_patient'
        END AS place,
        is_true(n.error) AS is_error,
        n.state, n.doc_state, n.names, n.replaces, n.codes, n.studies, n.version, n.words,
        clean(n.remark) AS remark,
        CASE WHEN n.fault IS NOT NULL THEN 'unreadable_text'
             WHEN NOT coalesce(regexp_matches(n.text, '\S'), false) THEN 'empty'
             WHEN s.stay_no IS NULL THEN 'stay_excluded' END AS content,
        clean(n.category) AS category,
        upper_clean(n.category) AS upper_category,
        upper_clean(n.kind) AS kind,
        charted_at IS NULL AND clean(n.chart_time) IS NOT NULL
            OR charted_on IS NULL AND clean(n.chart_date) IS NOT NULL AS is_unreadable,
        charted_at,
        has_offset,
        CASE WHEN has_offset THEN is_midnight(n.chart_time)
             WHEN has_offset IS NOT NULL THEN is_time_of_date(charted_at)
             ELSE false END AS is_midnight,
        length(trim(n.chart_time)) <= 10 AS is_date,
        charted_on,
        s.cutoff, s.clock_offset_us, s.next_start, s.next_day, s.discharge_day,
        n.text
    FROM dated n
    CROSS JOIN rules
    LEFT JOIN note_stays s ON s.stay_id = id_key(n.stay_id)
    LEFT JOIN merged m ON m.id = id_key(n.patient_id)
),
judged AS (
    SELECT *, judge_note(row(place, is_error, content, upper_category, kind, note_id, charted_at, is_date,
        charted_on, is_unreadable, cutoff, clock_offset_us, next_start, next_day, discharge_day)) AS verdict
    FROM read
),
used AS (
    SELECT * EXCLUDE verdict, verdict.status AS status, verdict.charted_by AS charted_by
    FROM judged
)
SELECT
    getvariable('note_table') AS source, row, stay_no, note_id, stay_id, status,
    is_unreadable, has_offset, is_midnight, charted_by,
    category, kind,
    CASE WHEN status <> 'used' THEN NULL
         -- Other texts are as they are compared; looking for white space is slow.
         WHEN suffix(text, ' ') OR suffix(text, chr(10)) OR suffix(text, chr(9)) OR suffix(text, chr(12))
           OR contains(text, chr(13))
         THEN hash(copy_text(text))
         ELSE hash(text) END AS text_hash,
    CASE WHEN status = 'used' THEN text END AS text,
    state, doc_state, names, replaces, codes, studies, version, charted_at AS written, words,
    CASE WHEN status <> 'used' THEN remark
         ELSE coalesce(remark, CASE
            WHEN regexp_matches(left(text, 100), '(?i)^\s*(\{\\rtf|<!doctype html|<html)')
              OR (contains(left(text, 400), '<') OR contains(left(text, 400), '&'))
                AND regexp_matches(left(text, 400), '(?i)<br ?/?>|</?(p|div|span|b|i)>|&(nbsp|lt|gt|amp|quot|#\d+);')
            THEN 'note in RTF or HTML, read with its markup as words'
            WHEN NOT early AND charted_by < cutoff - to_microseconds(hours_us)
            THEN 'summary charted before the admission' END)
    END AS remark
FROM used, rules;
