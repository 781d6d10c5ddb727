-- One piece of the finished cohort; the notes of a stay in the order in which they are read.
SELECT
    c.patient_id, c.stay_id, c.admit_time, c.discharge_time,
    coalesce(t.text, []) AS text,
    c.* EXCLUDE (stay_no, bytes, patient_id, stay_id, admit_time, discharge_time),
    $choice AS note_choice
FROM cohort c
LEFT JOIN (
    SELECT stay_no, list(text ORDER BY position, text) AS text
    FROM texts
    WHERE stay_no BETWEEN $first_stay AND $last_stay
    GROUP BY stay_no
) t USING (stay_no)
WHERE c.stay_no BETWEEN $first_stay AND $last_stay
ORDER BY c.stay_no;
