-- Which row of the cohort the notes of a stay belong to, and until when they count. Stays that may be
-- scored have notes, also those that nothing can be learned from, such as the latest discharges.
-- In:  stays, rules.  Out: note_stays, one row for each stay id.

-- An early prediction needs no discharge: the patient may still be in hospital.
UPDATE stays SET scorable = true
FROM rules
WHERE rules.early
  AND exclusion IN ('missing_time', 'still_patient') AND admit_time IS NOT NULL AND ends_episode
  AND NOT newborn AND NOT observation AND NOT died_in_hospital
  AND NOT coalesce(after_death, false) AND death_day IS NULL
  AND NOT coalesce(age < rules.minimum_age, rules.minimum_age IS NOT NULL)
  AND NOT coalesce(age > rules.maximum_age, rules.maximum_age IS NOT NULL);

CREATE TABLE note_stays AS
SELECT
    member.stay_id,
    -- Contradicting rows may name two patients; then no patient is checked.
    CASE WHEN count(DISTINCT member.patient_id) = 1 THEN min(member.patient_id) END AS patient_id,
    min(kept.stay_no) AS stay_no,
    min(kept.episode_start) + to_microseconds(min(rules.hours_us)) AS cutoff,
    min(kept.next_start) AS next_start,
    -- A note with a date and no time has the clock of the stay.
    min(kept.discharge_day) AS discharge_day,
    min(kept.next_day) AS next_day,
    (epoch(min(kept.clock_offset)) * 1e6)::BIGINT AS clock_offset_us
FROM stays member
CROSS JOIN rules
LEFT JOIN stays kept
    ON kept.stay_id = member.episode_stay AND kept.patient_id = member.patient_id
    AND kept.scorable
WHERE member.stay_id IS NOT NULL
GROUP BY member.stay_id;
