-- One pass over a table of notes: the status of each, and the text of those that are used.
-- In:  raw_notes (row, then our columns as text), note_stays, merged, rules.
-- Out: appended to notes.
--
-- Prediction at discharge: discharge summaries and their addenda, whenever charted, but nothing
-- charted once the patient was back: it may describe the return.
-- Early prediction: every other note charted at or before admission + hours. A note with a date and
-- no time counts as charted at the end of that day. A note without a category may be a summary, and
-- is never used.

INSERT INTO notes
WITH dated AS (      -- each macro once: binding it costs a millisecond
    SELECT *, moment(chart_time) AS charted_at, moment(chart_date) AS charted_on
    FROM raw_notes
    WHERE other IS NULL
),
read AS (
    SELECT
        n.row,
        s.stay_no,
        clean(n.note_id) AS note_id,
        id_text(n.stay_id) AS stay_id,
        s.stay_id IS NOT NULL AS is_known,
        coalesce(m.current_id, id_key(n.patient_id)) <> s.patient_id AS other_patient,
        is_true(n.error) AS is_error,
        n.state, n.doc_state, n.names, n.replaces, n.codes, n.studies, n.version, n.words,
        clean(n.remark) AS remark,
        n.fault IS NOT NULL AS is_faulty,
        NOT coalesce(regexp_matches(n.text, '\S'), false) AS is_empty,
        coalesce(list_contains(rules.discharge_categories, upper_clean(n.category)), false)
            AS is_summary,
        clean(n.category) AS category,
        coalesce(list_contains(rules.addendum_kinds, upper_clean(n.kind)), false) AS is_addendum,
        charted_at IS NULL AND clean(n.chart_time) IS NOT NULL
            OR charted_on IS NULL AND clean(n.chart_date) IS NOT NULL AS is_unreadable,
        -- MIMIC-IV writes the day of a summary as a time: midnight.
        CASE WHEN length(trim(n.chart_time)) <= 10
               OR NOT rules.early AND charted_at = date_trunc('day', charted_at)
             THEN NULL ELSE charted_at END AS chart_time,
        date_trunc('day', coalesce(charted_at, charted_on)) AS chart_day,
        s.cutoff, s.next_start, s.next_day, s.discharge_day, s.clock_offset,
        n.text
    FROM dated n
    CROSS JOIN rules
    LEFT JOIN note_stays s ON s.stay_id = id_key(n.stay_id)
    LEFT JOIN merged m ON m.id = id_key(n.patient_id)
),
timed AS (
    SELECT *, coalesce(chart_time, chart_day + INTERVAL 1 DAY - clock_offset) AS charted_by
    FROM read
),
judged AS (
    SELECT timed.*, CASE
        WHEN stay_id IS NULL THEN 'no_stay_id'
        WHEN NOT is_known THEN 'unknown_stay'
        WHEN other_patient THEN 'other_patient'
        WHEN is_error THEN 'marked_error'
        WHEN is_faulty THEN 'unreadable_text'
        WHEN is_empty THEN 'empty'
        WHEN stay_no IS NULL THEN 'stay_excluded'
        WHEN category IS NULL THEN 'missing_category'
        WHEN is_summary = rules.early THEN 'other_category'
        WHEN rules.early AND charted_by IS NULL THEN
            CASE WHEN is_unreadable THEN 'unreadable_time' ELSE 'missing_time' END
        WHEN rules.early AND charted_by > cutoff THEN 'charted_later'
        WHEN NOT rules.early AND coalesce(
            CASE WHEN chart_time IS NOT NULL THEN chart_time >= next_start
                 -- On the day of discharge the date cannot separate before from after.
                 ELSE chart_day >= next_day AND chart_day > discharge_day END, false)
            THEN 'after_return'
        ELSE 'used'
    END AS status
    FROM timed, rules
)
SELECT
    getvariable('note_table') AS source, row, stay_no, note_id, stay_id, status,
    is_unreadable, charted_by, is_addendum,
    category,
    -- Copies may differ in line ends and in white space at their ends; looking for it is slow.
    CASE WHEN status <> 'used' THEN NULL
         WHEN suffix(text, ' ') OR suffix(text, chr(10)) OR contains(text, chr(13))
         THEN hash(regexp_replace(replace(text, chr(13), ''), '\s+$', ''))
         ELSE hash(text) END AS text_hash,
    CASE WHEN status = 'used' THEN text END AS text,
    state, doc_state, names, replaces, codes, studies, version, words,
    CASE WHEN status <> 'used' THEN remark
         ELSE coalesce(remark, CASE
            WHEN regexp_matches(left(text, 100), '(?i)^\s*(\{\\rtf|<!doctype html|<html)')
            THEN 'note in RTF or HTML, read with its markup as words'
            WHEN NOT early AND charted_by < cutoff - to_microseconds(hours_us)
            THEN 'summary charted before the admission' END)
    END AS remark
FROM judged, rules;
