-- The cohort without its texts, and where to cut it so that the texts of a piece fit in memory.
-- In:  stays, splits, texts, rules.  Out: cohort, pieces.

CREATE TABLE cohort AS
WITH shown AS (   -- ids as they were written
    SELECT stay_id, min(stay_text) AS stay_text FROM stays WHERE stay_id IS NOT NULL GROUP BY ALL
),
lengths AS (
    SELECT stay_no, sum(strlen(text)) AS bytes FROM texts GROUP BY stay_no
),
judged AS (
    SELECT stays.* EXCLUDE (exclusion), bytes,
        CASE WHEN exclusion IS NULL AND rules.has_notes AND bytes IS NULL THEN 'no_text'
             ELSE exclusion END AS exclusion
    FROM stays
    CROSS JOIN rules
    LEFT JOIN lengths USING (stay_no)
)
SELECT
    stay_no,
    coalesce(bytes, 0) AS bytes,
    patient_text AS patient_id,
    judged.stay_text AS stay_id,
    admit_time,
    discharge_time,
    -- An excluded stay has no label, so that nobody trains on it by mistake.
    CASE WHEN exclusion IS NULL THEN readmitted::TINYINT END AS readmitted,
    CASE WHEN exclusion IS NULL THEN days_to_readmission END AS days_to_readmission,
    CASE WHEN exclusion IS NULL THEN returned.stay_text END AS readmission_stay_id,
    CASE WHEN exclusion IS NULL THEN splits.split END AS split,
    exclusion,
    scorable,
    age::SMALLINT AS age,
    sex,
    ethnicity,
    insurance,
    admission_type,
    episode.stay_text AS episode_stay_id,
    episode_start,
    coalesce(transfer, false) AS transfer,
    died_within_horizon,
    -- Within the horizon only: a later death is nobody's outcome.
    CASE WHEN exclusion IS NULL AND died_within_horizon THEN death_us / 86400e6 END AS days_to_death,
    censored
FROM judged
LEFT JOIN splits ON splits.patient_id = judged.patient_id
LEFT JOIN shown returned ON returned.stay_id = judged.return_stay
LEFT JOIN shown episode ON episode.stay_id = judged.episode_stay
ORDER BY stay_no;

CREATE TABLE pieces AS
WITH running AS (
    SELECT stay_no,
        sum(bytes + 1024) OVER (ORDER BY stay_no) // 33554432 AS piece
    FROM cohort
)
SELECT min(stay_no) AS first_stay, max(stay_no) AS last_stay
FROM running
GROUP BY piece
ORDER BY first_stay;
