-- Everything that was wrong with the source, row by row; rows count from 1 below the header.
-- Notes are listed by their id, or by their row in a table without ids.
-- Faults of a CSV file have the line of the file, from 1.
-- In:  admissions, raw_patients, patients_read, patients, links, circles, merged, deaths_read, follow_up_read,
--      members, stays, notes, repeated_notes, file_faults.
-- Out: issues, listed_issues (for a CSV file).

CREATE TABLE issues AS
SELECT admissions_table AS source, row, stay_text AS id, problem
FROM rules, (
    SELECT row, stay_text, CASE
        WHEN fault = 'duplicate_stay' AND NOT is_contradicted THEN 'copy of another row'
        WHEN fault = 'duplicate_stay' THEN 'stay id with contradicting rows'
        WHEN fault = 'missing_id' THEN 'no patient id or no stay id'
        WHEN fault = 'unreadable_time' THEN concat_ws(', ',
            CASE WHEN admit_unreadable THEN 'admission time unreadable' END,
            CASE WHEN discharge_unreadable THEN 'discharge time unreadable' END,
            CASE WHEN death_unreadable THEN 'death time unreadable' END)
        WHEN fault = 'missing_time' THEN 'no admission or no discharge time'
        WHEN fault = 'negative_stay' THEN 'discharge before admission'
    END AS problem
    FROM admissions
    UNION ALL
    SELECT row, stay_text, 'birth or death date unreadable' FROM admissions WHERE date_unreadable
    UNION ALL
    SELECT row, stay_text, 'age is no number, counted as unknown' FROM admissions WHERE age_unreadable
    UNION ALL
    SELECT row, stay_text, 'birth after the admission, or age over 120: age counted as unknown'
    FROM stays WHERE age_is_wrong
    UNION ALL
    SELECT row, stay_text, 'two-digit year of birth that may be of two centuries: age counted as unknown'
    FROM stays WHERE age_is_unclear
    UNION ALL
    SELECT row, stay_text, 'died is neither yes nor no, counted as no'
    FROM admissions WHERE died_unclear
    UNION ALL
    SELECT row, stay_text, 'id rounded by a column of floats: its last digits are lost'
    FROM admissions WHERE id_was_rounded
    UNION ALL
    SELECT row, stay_text, 'patient id written in more than one way, read as one'
    FROM admissions WHERE id_was_respelled
    UNION ALL
    SELECT row, stay_text, 'no admission type, counted as unplanned'
    FROM admissions, rules WHERE rules.has_types AND admission_type IS NULL AND fault IS NULL
    UNION ALL
    SELECT a.row, a.stay_text, 'patient not in the table of patients'
    FROM admissions a JOIN patients p USING (patient_id), rules
    WHERE rules.has_patients AND NOT p.is_listed
    UNION ALL
    SELECT a.row, a.stay_text, 'dates of the patient''s death differ: the earliest counts'
    FROM admissions a JOIN patients p USING (patient_id) WHERE p.is_disputed
    UNION ALL
    SELECT row, stay_text, 'discharged alive by the flag or the place, dead by another cell: counts as dead'
    FROM stays WHERE ends_episode AND died_in_hospital AND NOT after_death AND (said_alive OR place_is_alive)
    UNION ALL
    SELECT row, stay_text, 'admitted after the patient''s death' FROM members WHERE after_death
    UNION ALL
    SELECT a.row, a.stay_text, 'label may miss a stay of the patient that had to be left out'
    FROM admissions a SEMI JOIN (
        SELECT patient_id FROM admissions ANTI JOIN members USING (row)
        WHERE fault <> 'duplicate_stay' OR is_contradicted
    ) USING (patient_id)
    WHERE a.fault IS NULL
    UNION ALL
    SELECT row, stay_text, 'admitted after the end of data'
    FROM admissions, rules WHERE admit_time > rules.data_end
)
WHERE problem IS NOT NULL

UNION ALL
SELECT patients_table, row, patient_text, problem
FROM rules, (
    SELECT row, patient_text, CASE
        WHEN patient_id IS NULL THEN 'no patient id'
        WHEN is_contradicted THEN 'patient id with contradicting rows, none used'
    END AS problem
    FROM patients_read
    UNION ALL
    SELECT row, patient_text, 'birth or death date unreadable'
    FROM patients_read WHERE date_unreadable
    UNION ALL
    SELECT row, patient_text, 'age is no number, counted as unknown'
    FROM patients_read WHERE age_unreadable
    UNION ALL
    SELECT row, patient_text, 'id rounded by a column of floats: its last digits are lost'
    FROM patients_read WHERE id_was_rounded
    UNION ALL
    SELECT row, patient_text, 'no date of death, but another row of the patient has one: it counts'
    FROM patients_read WHERE lacks_death AND patient_id IS NOT NULL
    UNION ALL
    SELECT p.row, m.text, 'patient who was merged, read as the current one'
    FROM merged m LEFT JOIN patients_read p ON p.own_id = m.id WHERE m.id <> m.current_id
    UNION ALL
    SELECT row, patient_text, 'sex or birth date differs from that of the current patient, not used'
    FROM patients_read r JOIN patients p USING (patient_id)
    WHERE own_id <> patient_id AND (r.sex <> p.sex OR r.birth_date <> p.birth_date)
    UNION ALL
    SELECT p.row, m.text, 'patients who replace each other in a circle: all are read as one'
    FROM merged m LEFT JOIN patients_read p ON p.own_id = m.id WHERE m.id IN (FROM circles)
    UNION ALL
    SELECT p.row, m.text, 'one of several patients who replace the same one: all are read as one'
    FROM merged m LEFT JOIN patients_read p ON p.own_id = m.id WHERE m.is_last AND m.n_last > 1
    UNION ALL
    SELECT row, patient_text, 'link to a patient who is not in the table of patients'
    FROM links WHERE target NOT IN (SELECT own_id FROM patients_read WHERE own_id IS NOT NULL)
    UNION ALL
    SELECT r.row, id_text(r.patient_id), 'older version with another date of death, not read'
    FROM raw_patients r JOIN patients_read p ON p.own_id = id_key(r.patient_id)
    WHERE r.other IS NOT NULL AND r.death_date IS NOT NULL AND clean(r.death_date) IS DISTINCT FROM p.deaths[1].text
)
WHERE problem IS NOT NULL

UNION ALL
SELECT deaths_table, row, patient_text, problem
FROM rules, (
    SELECT row, patient_text, 'death without a patient' AS problem FROM deaths_read WHERE patient_id IS NULL
    UNION ALL
    SELECT row, patient_text, 'death without a date that can be read' FROM deaths_read WHERE is_undated
)

UNION ALL
SELECT follow_up_table, row, patient_text,
    'period of observation without a patient, with unreadable days, or that ends before it begins'
FROM follow_up_read, rules
WHERE patient_id IS NULL OR NOT coalesce(last_day >= first_day, false)

UNION ALL
SELECT source, row, coalesce(note_id, stay_id), CASE status
    WHEN 'no_stay_id' THEN 'note without a stay id'
    WHEN 'unknown_stay' THEN 'note of a stay that is not in the admissions'
    WHEN 'other_patient' THEN 'note whose patient is not the stay''s'
    WHEN 'marked_error' THEN 'note marked as an error'
    WHEN 'not_current' THEN 'document that is not current, not read'
    WHEN 'not_final' THEN 'document that is not final or was cancelled, not read'
    WHEN 'replaced' THEN 'document that another one replaces, not read'
    WHEN 'replaced_by_its_own' THEN 'document that a newer one replaces, which it replaces itself, not read'
    WHEN 'older_version' THEN 'older version of a document, not read'
    WHEN 'copy' THEN 'copy of another note of the stay'
    WHEN 'unreadable_text' THEN 'note whose text cannot be read: not base64, not text, or a link'
    WHEN 'empty' THEN 'note without text'
    WHEN 'missing_category' THEN 'note without a category, not used'
    WHEN 'after_return' THEN 'discharge note charted when the patient was back'
    WHEN 'missing_time' THEN 'note without a chart time' END
FROM notes
WHERE status IN ('no_stay_id', 'unknown_stay', 'other_patient', 'marked_error', 'not_current',
                 'not_final', 'replaced', 'replaced_by_its_own', 'older_version', 'copy', 'unreadable_text', 'empty',
                 'missing_category', 'after_return', 'missing_time')
UNION ALL
SELECT source, row, note_id, 'note id with different texts: pieces or versions of one note, read as several'
FROM notes SEMI JOIN same_ids USING (source, stay_no, note_id) WHERE status = 'used'
UNION ALL
SELECT source, row, coalesce(note_id, stay_id), 'chart time unreadable' FROM notes WHERE is_unreadable
UNION ALL
SELECT source, row, coalesce(note_id, stay_id), unnest(string_split(remark, '; '))
FROM notes WHERE remark IS NOT NULL
UNION ALL
SELECT source, line, NULL, problem FROM file_faults
UNION ALL
SELECT source, row, note_id, 'copy of another note of the stay, not read again'
FROM notes SEMI JOIN repeated_notes ON note = notes.rowid;

CREATE VIEW listed_issues AS
SELECT * REPLACE (no_formula(id) AS id) FROM issues ORDER BY source, problem, row, id;
