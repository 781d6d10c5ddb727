-- The label, and the first exclusion rule that applies, before any note is read.
-- In:  admissions, places, patients, follow_up, members, episodes, rules.
-- Out: stays, one row for each admission, numbered in an order that does not depend on the input's.

CREATE TABLE stays AS
WITH joined AS (
    SELECT
        a.row,
        a.patient_id,
        a.stay_id,
        a.stay_text,
        min(a.patient_text) OVER (PARTITION BY a.patient_id) AS patient_text,
        a.admit_time,
        a.discharge_time,
        a.admission_type,
        a.fault,
        a.content,
        a.discharge_day,
        a.discharge_timed,
        a.still_patient,
        a.clock_offset,
        coalesce(a.sex, p.sex) AS sex,
        coalesce(a.ethnicity, p.ethnicity) AS ethnicity,
        a.insurance,
        e.last_stay AS episode_stay,
        e.last_stay = a.stay_id AS ends_episode,
        e.start_time AS episode_start,
        e.start_day AS episode_day,
        e.next_start,
        e.next_day,
        e.return_time,
        e.return_stay,
        e.n_stays > 1 AS transfer,
        e.newborn,
        e.observation,
        e.died_in_hospital,
        a.said_alive,
        e.after_death,
        coalesce(l.alive, false) AS place_is_alive,
        p.death_time,
        coalesce((p.death_time + a.clock_offset)::DATE, p.death_day) AS death_day,
        rules.deaths_known AND p.death_known AS death_known,
        -- The patient died some time after the last admission, perhaps in it.
        coalesce(p.died_undated, false) AND e.next_start IS NULL AS died_undated,
        f.last_day,
        rules.has_follow_up AND f.patient_id IS NULL AS not_followed,
        -- The year 19 is 1919 or 2019.
        coalesce(a.age IS NULL AND age_then BETWEEN 0 AND 20 AND a.admit_day <> coalesce(a.birth_day, p.birth_day)
            AND if(a.birth_date IS NULL, p.has_short_year, a.has_short_year), false) AS age_is_unclear,
        -- De-identification shifts births of people over 89 by centuries: all of them become 90.
        CASE
            WHEN coalesce(a.age, age_then) > 120 THEN if(rules.shifted_births, 90, NULL)
            WHEN age_is_unclear THEN NULL
            WHEN coalesce(a.age, age_then) >= 0 THEN floor(coalesce(a.age, age_then))
        END AS age,
        coalesce(coalesce(a.age, age_then) < 0 OR coalesce(a.age, age_then) > 120 AND NOT rules.shifted_births, false)
            AS age_is_wrong,
        date_diff('microsecond', a.discharge_time, e.return_time) AS return_us,
        a.discharge_time <= e.start_time + to_microseconds(rules.hours_us) AS left_early
    FROM admissions a
    CROSS JOIN rules
    LEFT JOIN places l ON l.place = a.discharge_location
    LEFT JOIN patients p USING (patient_id)
    LEFT JOIN follow_up f ON f.patient_id = a.patient_id
        AND a.discharge_day BETWEEN f.first_day AND f.last_day
    LEFT JOIN members m ON m.row = a.row
    LEFT JOIN episodes e ON e.patient_id = m.patient_id AND e.episode = m.episode
    LEFT JOIN LATERAL (
        SELECT coalesce(
            datesub('year', coalesce(a.birth_date, p.birth_date), a.admit_time),
            p.anchor_age + year(a.admit_time) - p.anchor_year
        ) AS age_then
    ) ON true
),
dated AS (   -- days of the source's own clock as instants
    SELECT
        joined.*,
        discharge_day - coalesce(clock_offset, INTERVAL 0 HOUR) AS day_start,
        coalesce(death_time, death_day - coalesce(clock_offset, INTERVAL 0 HOUR)) AS death_from,
        -- A patient is followed to the end of the last day.
        last_day + INTERVAL 1 DAY - coalesce(clock_offset, INTERVAL 0 HOUR) AS followed_to,
        discharge_time + to_microseconds(rules.horizon_us) AS horizon_end,
        CASE WHEN death_time IS NOT NULL AND discharge_timed
             THEN death_time <= discharge_time + to_microseconds(rules.death_tolerance_us)
             ELSE death_day < discharge_day END AS died_before_discharge,
        -- Which came first is not known.
        coalesce(death_time IS NULL OR NOT discharge_timed, true)
            AND coalesce(death_day = discharge_day, false) AS died_same_day
    FROM joined, rules
),
judged AS (
    SELECT
        dated.* REPLACE (
            died_in_hospital OR coalesce(died_before_discharge, false) AS died_in_hospital),
        (died_same_day OR died_undated) AND CASE rules.same_day_death
            WHEN 'by_place' THEN NOT place_is_alive
            ELSE rules.same_day_death = 'in_hospital' END AS died_on_day,
        CASE WHEN death_known THEN
            coalesce(death_from >= day_start AND death_from < horizon_end, false)
        END AS died_within_horizon,
        -- GREATEST and LEAST ignore NULL.
        CASE WHEN death_from IS NOT NULL THEN
            greatest(date_diff('microsecond', discharge_time, death_from), 0)
        END AS death_us,
        -- Who died is judged.
        date_diff('microsecond', discharge_time, least(rules.data_end,
            CASE WHEN death_from IS NULL THEN followed_to END)) AS followed_us,
        coalesce(horizon_end > rules.data_end, false)
            OR coalesce(horizon_end > followed_to AND died_within_horizon IS NOT TRUE, false)
            AS censored
    FROM dated, rules
)
SELECT
    row_number() OVER (
        ORDER BY patient_id NULLS LAST, judged.admit_time NULLS LAST, judged.stay_id NULLS LAST,
            judged.content, judged.fault NULLS FIRST
    ) AS stay_no,
    judged.* EXCLUDE (content, fault, death_time, death_from, day_start, followed_to,
        horizon_end, last_day, died_before_discharge, died_on_day),
    -- The outcome, whatever it is: later steps know it by the name of the usual one.
    CASE rules.outcome
        WHEN 'readmission' THEN return_us > 0 AND return_us < rules.horizon_us IS TRUE
        WHEN 'death' THEN died_within_horizon
        -- Without a time of discharge, the days between the dates.
        WHEN 'long_stay' THEN rules.horizon_us < CASE
            WHEN discharge_timed THEN date_diff('microsecond', episode_start, discharge_time)
            ELSE 86400e6 * (discharge_day - episode_day) END
        WHEN 'hospital_death' THEN died_in_hospital OR died_on_day
    END AS readmitted,
    return_us / 86400e6 AS days_to_readmission,
    CASE
        WHEN judged.fault IS NOT NULL THEN judged.fault
        WHEN NOT ends_episode THEN 'transfer'
        WHEN after_death THEN 'after_death'
        WHEN still_patient THEN 'still_patient'
        WHEN newborn THEN 'newborn'
        WHEN observation THEN 'observation'
        WHEN died_in_hospital AND NOT rules.of_stay THEN 'died_in_hospital'
        WHEN died_on_day AND NOT rules.of_stay THEN 'same_day_death'
        WHEN coalesce(age < rules.minimum_age, rules.minimum_age IS NOT NULL)
          OR coalesce(age > rules.maximum_age, rules.maximum_age IS NOT NULL) THEN 'age'
        WHEN not_followed AND NOT rules.of_stay THEN 'not_followed'
        WHEN censored AND NOT rules.of_stay THEN 'censored'
        WHEN rules.exclude_deaths AND died_within_horizon
         AND NOT coalesce(return_us < rules.horizon_us, false) THEN 'died_after_discharge'
        WHEN rules.outcome = 'death' AND died_within_horizon IS NULL THEN 'unknown_outcome'
        WHEN rules.early AND left_early THEN 'left_early'
    END AS exclusion,
    -- A stay without a usable outcome cannot be learned from, but it can be scored: at its
    -- prediction time nobody knows the outcome.
    coalesce(exclusion, 'none') IN ('none', 'not_followed', 'censored',
            'died_after_discharge', 'unknown_outcome')
        AND NOT (died_undated AND exclusion IS NOT NULL)
        AND NOT (rules.early AND coalesce(left_early, false)) AS scorable
FROM judged, rules;
