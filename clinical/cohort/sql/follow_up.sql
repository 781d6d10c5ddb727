-- When each patient was followed, in whole days: periods that overlap or follow each other are one.
-- In:  raw_follow_up (may have no rows), merged, rules.
-- Out: follow_up_read (every row of the source), follow_up; rules.has_follow_up.

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
    -- A period without an end has not ended.
    coalesce(day_of(end_date), CASE WHEN end_date.text IS NULL THEN DATE '9999-12-31' END)
        AS last_day
FROM timed
LEFT JOIN merged ON merged.id = id_key(patient_id);

CREATE TABLE follow_up AS
WITH reached AS (
    SELECT patient_id, first_day, last_day, max(last_day) OVER (
        PARTITION BY patient_id ORDER BY first_day, last_day
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS earlier_day
    FROM follow_up_read
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
