-- When each patient was followed, in whole days: periods that overlap or follow each other are one.
-- In:  raw_follow_up (may have no rows), raw_admissions, raw_deaths, merged, rules.
-- Out: follow_up_read (every row of the source), observed_periods (what was found out about all of them), follow_up;
--      rules.has_follow_up.
--
-- A period that has not ended has no end, or one far after everything that happened, such as 2099-12-31 or
-- 9999-12-31: it ends with the data. Periods that end with the patient's last visit were made from the
-- visits: they tell when a patient was seen, not until when a return would have been seen.

CREATE TABLE follow_up_read AS
WITH timed AS (
    SELECT * REPLACE (clock(start_date) AS start_date, clock(end_date) AS end_date)
    FROM raw_follow_up
    WHERE other IS NULL
)
SELECT
    row,
    coalesce(current_id, id_key(patient_id)) AS patient_id,
    id_text(patient_id) AS patient_text,
    coalesce(day_of(start_date), CASE WHEN start_date.text IS NULL THEN DATE '0001-01-01' END)
        AS first_day,
    coalesce(day_of(end_date), CASE WHEN end_date.text IS NULL THEN DATE '9999-12-31' END)
        AS last_day
FROM timed
LEFT JOIN merged ON merged.id = id_key(patient_id);

-- What happened to the patients, also in visits that are no admissions.
CREATE TEMP TABLE last_visits AS
SELECT coalesce(current_id, id_key(patient_id)) AS patient_id,
    max(greatest(wall_time(discharge_time), wall_time(admit_time)))::DATE AS last_day
FROM raw_admissions
LEFT JOIN merged ON merged.id = id_key(patient_id)
WHERE year(moment(coalesce(discharge_time, admit_time))) BETWEEN 1800 AND 2300
GROUP BY ALL;

CREATE TABLE observed_periods AS
WITH happened AS (
    SELECT max(last_day) AS last_visit FROM last_visits
),
marked AS (
    SELECT f.*,
        f.last_day >= DATE '2300-01-01' OR f.last_day > last_visit + INTERVAL 2 YEAR
            OR (month(f.last_day), day(f.last_day)) = (12, 31) AND year(f.last_day) IN (2099, 2199, 2299)
            AS is_open
    FROM follow_up_read f, happened
),
ends AS (
    SELECT coalesce(greatest(max(last_day) FILTER (NOT is_open), any_value(last_visit)), any_value(last_visit))
        AS last_known
    FROM marked, happened
),
lasts AS (        -- of each patient who lives
    SELECT m.patient_id, max(m.last_day) AS last_day, bool_or(is_open) AS is_open, any_value(v.last_day) AS visit
    FROM marked m
    JOIN last_visits v USING (patient_id)
    ANTI JOIN (
        SELECT id_key(patient_id) AS patient_id FROM raw_deaths
        UNION ALL
        SELECT id_key(patient_id) FROM raw_patients
        WHERE coalesce(clean(death_date), clean(hospital_death_date), clean(registered_death_date)) IS NOT NULL
    ) USING (patient_id)
    GROUP BY m.patient_id
),
counts AS (
    SELECT count(*) FILTER (is_open) AS n_open, count(*) FILTER (last_day >= first_day) AS n_periods FROM marked
),
followed AS (
    SELECT count(*) AS n_patients, count(*) FILTER (NOT is_open AND last_day BETWEEN visit AND visit + 1) AS n_with_visit
    FROM lasts
)
SELECT counts.*, followed.*,
    coalesce(rules.data_end::DATE, last_known) AS end_day,
    n_with_visit >= 5 AND n_with_visit >= 0.25 * n_patients AND NOT rules.trusted_periods AS are_visits
FROM counts, followed, ends, rules;

CREATE TABLE follow_up AS
WITH capped AS (
    SELECT patient_id, first_day, least(last_day, greatest(end_day, first_day)) AS last_day
    FROM follow_up_read, observed_periods
    WHERE NOT are_visits
),
reached AS (
    SELECT patient_id, first_day, last_day, max(last_day) OVER (
        PARTITION BY patient_id ORDER BY first_day, last_day
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS earlier_day
    FROM capped
    WHERE patient_id IS NOT NULL AND last_day >= first_day
),
numbered AS (
    SELECT *, sum(CASE WHEN first_day > earlier_day + 1 THEN 1 ELSE 0 END) OVER (
        PARTITION BY patient_id ORDER BY first_day, last_day
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS period
    FROM reached
)
SELECT patient_id, min(first_day) AS first_day, max(last_day) AS last_day
FROM numbered
GROUP BY patient_id, period;

-- The end of the data need not be guessed where the follow-up is known.
UPDATE rules SET has_follow_up = true, derive_data_end = false
WHERE (SELECT count(*) > 0 FROM follow_up);
