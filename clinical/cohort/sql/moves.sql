-- Tables of movements: rows of one stay id that follow each other, one a ward, are one stay, which begins
-- with the first and ends with the last. Rows that overlap, or are days apart, contradict each other.
-- In:  raw_admissions.  Out: moves (rows, stays); raw_admissions with one row for each such stay.

CREATE TEMP TABLE moved AS
WITH repeated AS (
    SELECT id_key(stay_id) AS stay FROM raw_admissions
    WHERE other IS NULL AND id_key(stay_id) IS NOT NULL
    GROUP BY stay
    HAVING count(*) > 1
),
timed AS (
    SELECT row, id_key(stay_id) AS stay, id_key(patient_id) AS patient,
        wall_time(admit_time) AS start, wall_time(discharge_time) AS finish
    FROM raw_admissions
    WHERE other IS NULL AND id_key(stay_id) IN (FROM repeated)
),
followed AS (
    SELECT *, start > lag(start) OVER in_order AND finish >= start
        AND start BETWEEN lag(finish) OVER in_order - INTERVAL 1 HOUR AND lag(finish) OVER in_order + INTERVAL 1 DAY
        AS follows,
        lag(row) OVER in_order IS NULL AS is_first
    FROM timed
    WINDOW in_order AS (PARTITION BY stay ORDER BY start, finish, row)
)
SELECT row, stay, row_number() OVER (PARTITION BY stay ORDER BY start, row) AS position
FROM followed
QUALIFY bool_and(coalesce(follows, is_first AND start IS NOT NULL AND finish IS NOT NULL)) OVER (PARTITION BY stay)
    AND count(DISTINCT patient) OVER (PARTITION BY stay) = 1;

CREATE TABLE moves AS SELECT count(*) AS rows, count(DISTINCT stay) AS stays FROM moved;

CREATE TEMP TABLE joined_moves AS
SELECT
    arg_min(m.row, position) AS row,
    arg_min(patient_id, position) AS patient_id,
    arg_min(stay_id, position) AS stay_id,
    arg_min(admit_time, position) AS admit_time,
    arg_max(discharge_time, position) AS discharge_time,
    arg_max(death_time, position) AS death_time,
    coalesce(any_value(died) FILTER (says_died(died)), arg_max(died, position)) AS died,
    arg_min(admission_type, position) AS admission_type,
    -- Where the patient went from an earlier ward is another ward.
    arg_max_null(discharge_location, position) AS discharge_location,
    arg_min(sex, position) AS sex,
    arg_min(age, position) AS age,
    arg_min(birth_date, position) AS birth_date,
    arg_max(death_date, position) AS death_date,
    arg_min(ethnicity, position) AS ethnicity,
    arg_min(insurance, position) AS insurance
FROM moved m JOIN raw_admissions USING (row)
GROUP BY m.stay;

DELETE FROM raw_admissions WHERE row IN (SELECT row FROM moved);
INSERT INTO raw_admissions BY NAME SELECT * FROM joined_moves;
