-- The label, and the first exclusion rule that applies, before any note is read.
-- In:  admissions, patients, members, episodes, rules.
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
        coalesce(a.sex, p.sex) AS sex,
        coalesce(a.ethnicity, p.ethnicity) AS ethnicity,
        a.insurance,
        e.last_stay AS episode_stay,
        e.last_stay = a.stay_id AS ends_episode,
        e.start_time AS episode_start,
        e.next_start,
        e.return_time,
        e.return_stay,
        e.n_stays > 1 AS transfer,
        e.newborn,
        e.observation,
        -- A date of death before the day of discharge means discharged dead (organ donors, say).
        e.died_in_hospital OR coalesce(p.death_date < date_trunc('day', a.discharge_time), false)
            AS died_in_hospital,
        -- De-identification shifts births of people over 89 by centuries: all of them become 90.
        CASE
            WHEN coalesce(a.age, age_then) > 120 THEN 90
            WHEN coalesce(a.age, age_then) >= 0 THEN floor(coalesce(a.age, age_then))
        END AS age,
        date_diff('microsecond', a.discharge_time, e.return_time) AS return_us,
        -- Usually only the day of a death is known, and it begins before the hour of discharge.
        CASE WHEN rules.deaths_known AND p.death_known THEN
            coalesce(p.death_date >= date_trunc('day', a.discharge_time)
                     AND p.death_date < a.discharge_time + to_microseconds(rules.horizon_us), false)
        END AS died_within_horizon,
        -- GREATEST and LEAST ignore NULL.
        CASE WHEN p.death_date IS NOT NULL THEN
            greatest(date_diff('microsecond', a.discharge_time, p.death_date), 0)
        END AS death_us,
        -- A patient is followed to the end of the last day; who died is followed.
        date_diff('microsecond', a.discharge_time, least(rules.data_end,
            CASE WHEN p.death_date IS NULL THEN
                date_trunc('day', p.follow_up_end) + INTERVAL 1 DAY
            END)) AS followed_us,
        coalesce(a.discharge_time + to_microseconds(rules.horizon_us) > rules.data_end, false)
            OR coalesce(a.discharge_time + to_microseconds(rules.horizon_us)
                > date_trunc('day', p.follow_up_end) + INTERVAL 1 DAY
                AND died_within_horizon IS NOT TRUE, false)
            AS censored,
        a.discharge_time <= e.start_time + to_microseconds(rules.hours_us) AS left_early
    FROM admissions a
    CROSS JOIN rules
    LEFT JOIN patients p USING (patient_id)
    LEFT JOIN members m ON m.row = a.row
    LEFT JOIN episodes e ON e.patient_id = m.patient_id AND e.episode = m.episode
    LEFT JOIN LATERAL (
        SELECT coalesce(
            datesub('year', coalesce(a.birth_date, p.birth_date), a.admit_time),
            p.anchor_age + year(a.admit_time) - p.anchor_year
        ) AS age_then
    ) ON true
)
SELECT
    row_number() OVER (
        ORDER BY patient_id NULLS LAST, joined.admit_time NULLS LAST, joined.stay_id NULLS LAST,
            joined.content, joined.fault NULLS FIRST
    ) AS stay_no,
    joined.* EXCLUDE (content, fault),
    -- The outcome, whatever it is: later steps know it by the name of the usual one.
    CASE rules.outcome
        WHEN 'readmission' THEN return_us > 0 AND return_us < rules.horizon_us IS TRUE
        WHEN 'death' THEN died_within_horizon
        ELSE joined.discharge_time > episode_start + to_microseconds(rules.horizon_us)
    END AS readmitted,
    return_us / 86400e6 AS days_to_readmission,
    CASE
        WHEN joined.fault IS NOT NULL THEN joined.fault
        WHEN NOT ends_episode THEN 'transfer'
        WHEN newborn THEN 'newborn'
        WHEN observation THEN 'observation'
        WHEN died_in_hospital AND rules.outcome <> 'long_stay' THEN 'died_in_hospital'
        WHEN coalesce(age < rules.minimum_age, rules.minimum_age IS NOT NULL)
          OR coalesce(age > rules.maximum_age, rules.maximum_age IS NOT NULL) THEN 'age'
        WHEN censored AND rules.outcome <> 'long_stay' THEN 'censored'
        WHEN rules.exclude_deaths AND died_within_horizon
         AND NOT coalesce(return_us < rules.horizon_us, false) THEN 'died_after_discharge'
        WHEN rules.outcome = 'death' AND died_within_horizon IS NULL THEN 'unknown_outcome'
        WHEN rules.early AND left_early THEN 'left_early'
    END AS exclusion,
    -- A stay without a usable outcome is nothing to learn from, but it can be scored: at its
    -- prediction time nobody knows the outcome.
    coalesce(exclusion, 'none') IN ('none', 'censored', 'died_after_discharge', 'unknown_outcome')
        AND NOT (rules.early AND coalesce(left_early, false)) AS scorable
FROM joined, rules;
