-- What is known of each patient, once.
-- In:  raw_patients (may have no rows), admissions, rules.
-- Out: patients_read (every row of the source), patients (one row per patient of the admissions).

CREATE TABLE patients_read AS
WITH timed AS (
    SELECT * REPLACE (clock(birth_date) AS birth_date, clock(death_date) AS death_date)
    FROM raw_patients
    WHERE other IS NULL
),
read AS (
    SELECT
        row,
        id_key(patient_id) AS patient_id,
        id_text(patient_id) AS patient_text,
        clean(sex) AS sex,
        birth_date.instant AS birth_date,
        timed_moment(death_date) AS death_time,
        day_of(death_date) AS death_day,
        number(anchor_age) AS anchor_age,
        number(anchor_year) AS anchor_year,
        clean(ethnicity) AS ethnicity,
        clean(split) AS split,
        is_no_number(anchor_age) OR is_no_number(anchor_year) AS age_unreadable,
        coalesce(is_rounded(patient_id), false) AS id_was_rounded,
        is_unreadable(birth_date) OR is_unreadable(death_date) AS date_unreadable,
        is_unreadable(death_date) AS death_unreadable,
        [clean(sex), birth_date.text, death_date.text, clean(anchor_age), clean(anchor_year),
         clean(ethnicity), clean(split)] AS content
    FROM timed
)
SELECT *, count(DISTINCT content) OVER (PARTITION BY patient_id) > 1 AS is_contradicted
FROM read;

CREATE TABLE patients AS
WITH said AS (   -- copies agree; contradicting rows say nothing
    SELECT DISTINCT patient_id, sex, birth_date, death_time, death_day, anchor_age, anchor_year,
        ethnicity, split
    FROM patients_read
    WHERE patient_id IS NOT NULL AND NOT is_contradicted
),
reports AS (     -- of a death, by whatever tells of it
    SELECT patient_id, death_time, death_day, death_day AS told_day FROM said
    UNION ALL
    SELECT patient_id, death_time, death_day, death_day FROM admissions WHERE NOT coalesce(is_contradicted, false)
    UNION ALL    -- a stay that ended in death ended after it
    SELECT patient_id, CASE WHEN discharge_timed THEN discharge_time END, discharge_day, NULL
    FROM admissions
    WHERE died_in_hospital AND NOT coalesce(is_contradicted, false)
),
ordered AS (
    SELECT *, min(death_day) OVER (PARTITION BY patient_id) AS first_day FROM reports
    WHERE patient_id IS NOT NULL AND death_day IS NOT NULL
),
deaths AS (      -- the day is always known, the time only sometimes
    SELECT patient_id, any_value(first_day) AS death_day,
        min(death_time) FILTER (death_day = first_day) AS death_time,
        min(told_day) < max(told_day) AS is_disputed
    FROM ordered
    GROUP BY patient_id
),
listed AS (
    SELECT patient_id, bool_and(NOT is_contradicted AND NOT death_unreadable) AS death_known
    FROM patients_read
    GROUP BY patient_id
),
everyone AS (
    SELECT DISTINCT patient_id FROM admissions WHERE patient_id IS NOT NULL
)
SELECT
    everyone.patient_id,
    said.sex,
    said.birth_date,
    said.anchor_age,
    said.anchor_year,
    said.ethnicity,
    said.split,
    deaths.death_day,
    deaths.death_time,
    deaths.is_disputed,
    listed.patient_id IS NOT NULL AS is_listed,
    coalesce(listed.death_known, NOT rules.has_patients) AS death_known
FROM everyone
CROSS JOIN rules
LEFT JOIN said USING (patient_id)
LEFT JOIN deaths USING (patient_id)
LEFT JOIN listed USING (patient_id);
