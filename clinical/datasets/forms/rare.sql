-- What is rare, given to the first patients with one stay: a death on the day of discharge, with and
-- without a time, and an organ donor. Changes ADMISSIONS and PATIENTS; notes and risks stay.
-- MIMIC-III writes a day without a time as midnight.
CREATE TABLE fates AS
SELECT * FROM (VALUES
    (1, INTERVAL (-1) HOUR, true, 'HOME', '0'),   -- in hospital, by the time alone
    (2, INTERVAL 2 HOUR, true, 'HOME', '0'),      -- after discharge, by the time
    (3, INTERVAL 0 HOUR, false, 'HOME', '0'),     -- on the day, at home
    (4, INTERVAL 0 HOUR, false, NULL, '0'),       -- on the day, nobody knows where
    (5, INTERVAL (-1) DAY, false, 'HOME', '0'),   -- the day before
    (6, INTERVAL 0 HOUR, true, 'DEAD/EXPIRED', '1')
) fate(number, delay, is_timed, place, flag);

CREATE TABLE chosen AS
WITH alone AS (
    SELECT SUBJECT_ID, any_value(HADM_ID) AS HADM_ID, any_value(DISCHTIME)::TIMESTAMP AS left_at
    FROM ADMISSIONS JOIN PATIENTS USING (SUBJECT_ID)
    GROUP BY SUBJECT_ID
    HAVING count(*) = 1 AND any_value(DOD) IS NULL AND any_value(ADMISSION_TYPE) <> 'NEWBORN'
),
numbered AS (   -- a small hospital has few of them
    SELECT *, row_number() OVER (ORDER BY SUBJECT_ID::BIGINT) AS number,
        count(*) OVER () // 6 AS most
    FROM alone
)
SELECT SUBJECT_ID, HADM_ID, left_at, number, place, flag, is_timed AND delay <= INTERVAL 0 HOUR AS in_stay,
    strftime(if(is_timed, left_at + delay, date_trunc('day', left_at + delay)), '%Y-%m-%d %H:%M:%S') AS died
FROM numbered JOIN fates USING (number)
WHERE number <= most;

UPDATE PATIENTS SET DOD = died, EXPIRE_FLAG = '1'
FROM chosen WHERE chosen.SUBJECT_ID = PATIENTS.SUBJECT_ID;

UPDATE ADMISSIONS SET DISCHARGE_LOCATION = place, HOSPITAL_EXPIRE_FLAG = flag,
    DEATHTIME = CASE WHEN in_stay THEN died END
FROM chosen WHERE chosen.HADM_ID = ADMISSIONS.HADM_ID;

-- The stay of a donor begins after the death, as a row that nobody marks.
INSERT INTO ADMISSIONS
SELECT * REPLACE (
    (SELECT max(ROW_ID::BIGINT) + 1 FROM ADMISSIONS)::VARCHAR AS ROW_ID,
    (SELECT max(HADM_ID::BIGINT) + 1 FROM ADMISSIONS)::VARCHAR AS HADM_ID,
    strftime(DISCHTIME::TIMESTAMP + INTERVAL 1 MINUTE, '%Y-%m-%d %H:%M:%S') AS ADMITTIME,
    strftime(DISCHTIME::TIMESTAMP + INTERVAL 10 HOUR, '%Y-%m-%d %H:%M:%S') AS DISCHTIME,
    NULL AS DEATHTIME, NULL AS DISCHARGE_LOCATION, '0' AS HOSPITAL_EXPIRE_FLAG
)
FROM ADMISSIONS SEMI JOIN chosen ON chosen.HADM_ID = ADMISSIONS.HADM_ID AND chosen.flag = '1';
