-- Every admission as it was read, with the fault that makes it unusable, if any.
-- In:  raw_admissions (row, then our columns as text, and other), merged, rules (one row).
-- Out: admissions; fault is NULL or the name of a step of the flow.
--      others: rows that are no admissions, by the conditions of `where` that they do not meet.

CREATE TABLE others AS
SELECT other, count(*) AS rows,
    -- What lasts a night looks like an admission.
    count_if(wall_time(discharge_time)::DATE > wall_time(admit_time)::DATE) AS long_rows
FROM raw_admissions WHERE other IS NOT NULL GROUP BY other;

CREATE TABLE admissions AS
WITH timed AS (
    SELECT * REPLACE (
            clock(admit_time) AS admit_time,
            clock(discharge_time) AS discharge_time,
            clock(death_time) AS death_time,
            clock(death_date) AS death_date,
            clock(rtrim(birth_date, '~')) AS birth_date),
        ends_with(birth_date, '~') AS has_short_year,
        coalesce(current_id, id_key(patient_id)) AS patient_key,
        coalesce(current_text, id_text(patient_id)) AS patient_text
    FROM raw_admissions
    LEFT JOIN merged ON merged.id = id_key(patient_id)
    WHERE other IS NULL
),
read AS (
    SELECT
        row,
        patient_key AS patient_id,
        id_key(stay_id) AS stay_id,
        patient_text,
        id_text(stay_id) AS stay_text,
        coalesce(is_rounded(patient_id) OR is_rounded(stay_id), false) AS id_was_rounded,
        start_moment(admit_time, discharge_time) AS admit_time,
        end_moment(discharge_time, admit_time) AS discharge_time,
        day_of(admit_time) AS admit_day,
        day_of(discharge_time) AS discharge_day,
        has_time(admit_time) AS admit_timed,
        has_time(discharge_time) AS discharge_timed,
        coalesce(offset_of(discharge_time), offset_of(admit_time)) AS clock_offset,
        coalesce(timed_moment(death_time), timed_moment(death_date)) AS death_time,
        coalesce(day_of(death_time), day_of(death_date)) AS death_day,
        birth_date.instant AS birth_date,
        day_of(birth_date) AS birth_day,
        has_short_year,
        is_unreadable(admit_time) AS admit_unreadable,
        is_unreadable(discharge_time) AS discharge_unreadable,
        is_unreadable(death_time) AS death_unreadable,
        is_unreadable(death_date) AS death_date_unreadable,
        is_unreadable(birth_date) OR death_date_unreadable AS date_unreadable,
        is_no_number(age) AS age_unreadable,
        is_neither(died) AS died_unclear,
        upper_clean(admission_type) AS admission_type,
        upper_clean(discharge_location) AS discharge_location,
        -- What the stay itself tells, whatever the times are.
        clean(died) IS NOT NULL AND NOT says_died(died) AND NOT died_unclear AS said_alive,
        says_died(died)
            OR is_unreadable(death_time)
            OR coalesce(place_is_death, false)
            AS died_in_hospital,
        coalesce(list_contains(rules.newborn_types, upper_clean(admission_type)), false)
            AS newborn,
        coalesce(list_contains(rules.observation_types, upper_clean(admission_type)), false)
            AS observation,
        coalesce(still, false) AS still_patient,
        clean(sex) AS sex,
        number(age) AS age,
        clean(ethnicity) AS ethnicity,
        clean(insurance) AS insurance,
        -- What two rows must share to be copies of one another.
        [patient_key, admit_time.text, discharge_time.text, death_time.text,
         clean(died), clean(admission_type), clean(discharge_location), clean(sex), clean(age),
         birth_date.text, death_date.text, clean(ethnicity), clean(insurance)] AS content
    FROM timed
    CROSS JOIN rules
    LEFT JOIN (SELECT place, still, died AS place_is_death FROM places) places ON place = upper_clean(timed.discharge_location)
),
repeats AS (
    SELECT stay_id, count(DISTINCT content) AS versions, min(row) AS first_row,
        count(DISTINCT [patient_id, admit_time::VARCHAR]) = 1 AS one_start
    FROM read
    WHERE stay_id IS NOT NULL
    GROUP BY stay_id
)
SELECT
    read.*,
    -- An id that is written in more than one way is shown in the first of them.
    coalesce(min(patient_text) OVER (PARTITION BY patient_id) <> patient_text, false)
        AS id_was_respelled,
    CASE
        WHEN patient_id IS NULL OR read.stay_id IS NULL THEN 'missing_id'
        -- A copy adds nothing. Of rows that contradict each other, none can be believed.
        WHEN repeats.versions > 1 OR row <> repeats.first_row THEN 'duplicate_stay'
        WHEN admit_unreadable OR discharge_unreadable OR death_unreadable THEN 'unreadable_time'
        WHEN admit_time IS NULL OR discharge_time IS NULL THEN 'missing_time'
        WHEN discharge_time < admit_time THEN 'negative_stay'
    END AS fault,
    repeats.versions > 1 AS is_contradicted,
    -- Rows that agree on the patient and the admission: it took place, whatever else is true.
    repeats.versions > 1 AND repeats.one_start AND row = repeats.first_row AS began_once
FROM read
LEFT JOIN repeats USING (stay_id);

-- Dates of MIMIC are shifted into the future, whatever the form of its tables.
UPDATE rules SET shifted_births = true
WHERE (SELECT min(year(admit_time)) FROM admissions WHERE fault IS NULL) > year(current_date);

-- Without a given end of data, the last admission.
UPDATE rules SET data_end = (SELECT max(admit_time) FROM admissions WHERE fault IS NULL)
WHERE derive_data_end;
