-- Stays of a patient that touch or overlap become one episode of care, followed by the next one.
-- In:  admissions, patients, rules.
-- Out: members (stay -> episode), episodes (with the next unplanned return).

-- A stay without a believable end cannot be an index stay, but it can be the return after an earlier
-- stay: a return is defined by its admission. Its end is not guessed: it has no length here.
CREATE TABLE members AS
WITH timeline AS (
    SELECT a.* EXCLUDE (newborn) REPLACE (
            CASE WHEN discharge_time >= admit_time AND NOT coalesce(began_once, false) THEN discharge_time END
                AS discharge_time),
        -- Birth is not an illness, whatever the form calls it.
        newborn OR coalesce(coalesce(a.birth_day, p.birth_day) = admit_day, false) AS newborn,
        coalesce(CASE WHEN p.death_time IS NOT NULL AND admit_timed THEN admit_time > p.death_time
                      ELSE admit_day > p.death_day END, false) AS after_death
    FROM admissions a
    LEFT JOIN patients p USING (patient_id)
    WHERE admit_time IS NOT NULL
      AND (fault IS NULL OR fault IN ('unreadable_time', 'missing_time', 'negative_stay')
           OR fault = 'duplicate_stay' AND began_once)
),
lengths AS (
    SELECT *,
        -- A stay that had not ended goes on in one that begins by the next day.
        CASE WHEN still_patient AND lead(admit_day) OVER in_order <= discharge_day + 1
             THEN greatest(discharge_time, lead(admit_time) OVER in_order)
             ELSE coalesce(discharge_time, admit_time) END AS end_time
    FROM timeline
    WINDOW in_order AS (PARTITION BY patient_id ORDER BY admit_time, discharge_time, stay_id)
),
reached AS (
    SELECT *, max(end_time) OVER (
        PARTITION BY patient_id ORDER BY admit_time, end_time, stay_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS earlier_end
    FROM lengths
)
SELECT
    reached.*,
    sum(CASE
        WHEN earlier_end IS NULL THEN 1
        WHEN admit_time > earlier_end + to_microseconds(rules.gap_us) THEN 1
        ELSE 0
    END) OVER (
        PARTITION BY patient_id ORDER BY admit_time, end_time, stay_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS episode
FROM reached, rules;

CREATE TABLE episodes AS
WITH whole AS (
    SELECT
        patient_id,
        episode,
        -- An episode with an open stay has no known end: the open stay represents it.
        first(stay_id ORDER BY discharge_time DESC NULLS FIRST, admit_time DESC, stay_id DESC)
            AS last_stay,
        first(stay_id ORDER BY admit_time, end_time, stay_id) AS first_stay,
        min(admit_time) AS start_time,
        min(admit_day) AS start_day,
        max(end_time) AS end_time,
        count(*) AS n_stays,
        bool_or(newborn) AS newborn,
        -- Observation that became an admission is part of the admission.
        bool_and(observation) AS observation,
        bool_or(died_in_hospital) AS died_in_hospital,
        bool_and(after_death) AS after_death,
        first(admission_type ORDER BY admit_time, end_time, stay_id) AS entry_type
    FROM members
    GROUP BY patient_id, episode
),
planned AS (
    SELECT whole.*,
        -- Organ donors and clerical stays begin after the death: they are no return.
        NOT observation AND NOT after_death
            AND NOT coalesce(list_contains(rules.planned_types, entry_type), false) AS unplanned
    FROM whole, rules
)
SELECT
    *,
    lead(start_time) OVER later AS next_start,
    lead(start_day) OVER later AS next_day,
    min(start_time) FILTER (unplanned) OVER later AS return_time,
    arg_min(first_stay, start_time) FILTER (unplanned) OVER later AS return_stay
FROM planned
WINDOW later AS (
    PARTITION BY patient_id ORDER BY episode
    ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
);
