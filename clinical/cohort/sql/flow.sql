-- What each rule removed, in the order in which the rules are tried, and how many stays it left.
-- In:  cohort, file_faults, rules.
-- Out: flow. `step` is a value of the column `exclusion`; steps of the same box share a box of the
--      figure.

CREATE TABLE flow AS
WITH rule(number, box, step, reason) AS (VALUES
    (1, 'Usable stays', 'malformed_line', 'line of the file that cannot be read'),
    (2, 'Usable stays', 'missing_id', 'no patient id or no stay id'),
    (3, 'Usable stays', 'duplicate_stay', 'repeated or contradicting stay id'),
    (4, 'Usable stays', 'unreadable_time', 'unreadable time'),
    (5, 'Usable stays', 'missing_time', 'no admission or discharge time'),
    (6, 'Usable stays', 'negative_stay', 'discharge before admission'),
    (7, 'Episodes of care', 'transfer', 'continued in a later stay: transfer'),
    (8, 'Index discharges', 'after_death', 'began after the patient''s death'),
    (9, 'Index discharges', 'still_patient', 'still in hospital at the end of the record'),
    (10, 'Index discharges', 'newborn', 'newborn'),
    (11, 'Index discharges', 'observation', 'observation, not an admission'),
    (12, 'Index discharges', 'died_in_hospital', 'died in hospital'),
    (13, 'Index discharges', 'same_day_death', 'died on the day of discharge, time unknown'),
    (14, 'Index discharges', 'age', 'age outside the limits or unknown'),
    (15, 'Cohort', 'not_followed', 'discharged outside every observation period'),
    (16, 'Cohort', 'censored', 'follow-up cut short by the end of data'),
    (17, 'Cohort', 'died_after_discharge', 'died after discharge'),
    (18, 'Cohort', 'unknown_outcome', 'death or survival unknown'),
    (19, 'Cohort', 'left_early', 'discharged before the prediction time'),
    (20, 'Cohort', 'earlier_period', 'earlier stay of a patient who is on a later side'),
    (21, 'Cohort', 'no_text', 'no note to predict from')
),
excluded AS (
    SELECT exclusion AS step, count(*) AS removed FROM cohort GROUP BY exclusion
    UNION ALL
    SELECT 'malformed_line', count(*) FROM file_faults, rules   -- such lines have no row in the cohort
    WHERE starts_with(problem, no_row) AND starts_with(lower(source), lower(admissions_table) || '.')
),
counted AS (
    SELECT 0 AS number, 'Admissions' AS box, 'admissions' AS step, 'all admissions' AS reason, 0 AS removed
    UNION ALL
    SELECT number, box, step, reason, coalesce(removed, 0) FROM rule LEFT JOIN excluded USING (step)
)
SELECT box, step, reason, removed,
    ((SELECT sum(removed) FROM excluded) - sum(removed) OVER (ORDER BY number))::BIGINT AS "left"
FROM counted
ORDER BY number;
