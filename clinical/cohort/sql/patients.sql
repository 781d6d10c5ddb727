-- What is known of each patient, once.
-- In:  raw_patients and raw_deaths (may have no rows), merged, admissions, rules.
-- Out: patients_read, deaths_read (every row of the source), patients (one row per patient of the admissions).

CREATE TABLE patients_read AS
WITH timed AS (
    SELECT * REPLACE (clock(rtrim(birth_date, '~')) AS birth_date),
        ends_with(birth_date, '~') AS has_short_year,
        [clock(death_date), clock(hospital_death_date), clock(registered_death_date)] AS deaths
    FROM raw_patients
    WHERE other IS NULL
),
read AS (
    SELECT
        row,
        id_key(patient_id) AS own_id,
        coalesce(current_id, own_id) AS patient_id,
        id_text(patient_id) AS patient_text,
        clean(sex) AS sex,
        birth_date.instant AS birth_date,
        CASE WHEN clean(birth_is_guessed) IS NULL THEN day_of(birth_date) END AS birth_day,
        has_short_year,
        deaths,
        number(anchor_age) AS anchor_age,
        number(anchor_year) AS anchor_year,
        clean(ethnicity) AS ethnicity,
        clean(split) AS split,
        is_no_number(anchor_age) OR is_no_number(anchor_year) AS age_unreadable,
        coalesce(is_rounded(patient_id), false) AS id_was_rounded,
        list_bool_or(list_transform(deaths, lambda d: is_unreadable(d))) AS death_unreadable,
        list_bool_or(list_transform(deaths, lambda d: d.instant IS NOT NULL)) AS is_dead,
        is_unreadable(birth_date) OR death_unreadable AS date_unreadable,
        [clean(sex), birth_date.text, clean(anchor_age), clean(anchor_year),
         clean(ethnicity), clean(split)] AS content
    FROM timed
    LEFT JOIN merged ON merged.id = id_key(patient_id)
)
SELECT *,
    count(DISTINCT content) OVER (PARTITION BY own_id) > 1 AS is_contradicted,
    NOT is_dead AND bool_or(is_dead) OVER (PARTITION BY patient_id) AS lacks_death
FROM read;

CREATE TABLE deaths_read AS
WITH timed AS (
    SELECT row, patient_id, clock(death_date) AS death_date FROM raw_deaths WHERE other IS NULL
)
SELECT
    row,
    coalesce(current_id, id_key(patient_id)) AS patient_id,
    id_text(patient_id) AS patient_text,
    death_date,
    day_of(death_date) IS NULL AS is_undated
FROM timed
LEFT JOIN merged ON merged.id = id_key(patient_id);

CREATE TABLE patients AS
WITH said AS (   -- copies agree; contradicting rows say nothing; what the current record lacks, a merged one has
    SELECT patient_id,
        arg_min(sex, rank) AS sex,
        arg_min(birth_date, rank) AS birth_date,
        arg_min(birth_day, rank) AS birth_day,
        arg_min(has_short_year, rank) AS has_short_year,
        arg_min(anchor_age, rank) AS anchor_age,
        arg_min(anchor_year, rank) AS anchor_year,
        arg_min(ethnicity, rank) AS ethnicity,
        arg_min(split, rank) AS split
    FROM (SELECT *, if(own_id = patient_id, '', own_id) AS rank FROM patients_read)
    WHERE patient_id IS NOT NULL AND NOT is_contradicted
    GROUP BY patient_id
),
tables AS (      -- also of rows that contradict each other in something else
    SELECT patient_id, timed_moment(death) AS death_time, day_of(death) AS death_day
    FROM (
        SELECT patient_id, unnest(deaths) AS death FROM patients_read
        UNION ALL
        SELECT patient_id, death_date FROM deaths_read
    )
),
reports AS (     -- of a death, by whatever tells of it
    SELECT patient_id, death_time, death_day, death_time AS told_time, death_day AS told_day, NULL AS end_day
    FROM tables
    UNION ALL
    SELECT patient_id, death_time, death_day, death_time, death_day, NULL
    FROM admissions WHERE NOT coalesce(is_contradicted, false)
    UNION ALL    -- a stay that ended in death ended after it
    SELECT patient_id, CASE WHEN discharge_timed THEN discharge_time END, discharge_day, NULL, NULL, discharge_day
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
        -- Times that were rounded to minutes agree, and so do clocks of two places.
        max(told_time) - min(told_time) > INTERVAL 1 MINUTE IS TRUE
            OR min(told_day) < max(told_day) AND count(told_time) < count(told_day)
            OR max(told_day) > min(end_day) AS is_disputed
    FROM ordered
    GROUP BY patient_id
),
undated AS (     -- a death without a day that can be read
    SELECT patient_id FROM patients_read WHERE death_unreadable
    UNION
    SELECT patient_id FROM deaths_read WHERE is_undated
    UNION
    SELECT patient_id FROM admissions WHERE death_date_unreadable AND NOT coalesce(is_contradicted, false)
),
unclear AS (
    SELECT patient_id FROM patients_read WHERE is_contradicted
    UNION
    FROM undated
),
listed AS (
    SELECT DISTINCT patient_id FROM patients_read
),
everyone AS (
    SELECT DISTINCT patient_id FROM admissions WHERE patient_id IS NOT NULL
)
SELECT
    everyone.patient_id,
    said.sex,
    said.birth_date,
    said.birth_day,
    said.has_short_year,
    said.anchor_age,
    said.anchor_year,
    said.ethnicity,
    said.split,
    deaths.death_day,
    deaths.death_time,
    deaths.is_disputed,
    deaths.patient_id IS NULL AND everyone.patient_id IN (SELECT patient_id FROM undated) AS died_undated,
    listed.patient_id IS NOT NULL AS is_listed,
    deaths.patient_id IS NOT NULL
        OR unclear.patient_id IS NULL AND (is_listed OR NOT rules.has_patients) AS death_known
FROM everyone
CROSS JOIN rules
LEFT JOIN said USING (patient_id)
LEFT JOIN deaths USING (patient_id)
LEFT JOIN listed USING (patient_id)
LEFT JOIN unclear USING (patient_id);
