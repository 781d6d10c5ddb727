-- How many stays depend on the zone of the hospital, where all times are in UTC and deaths or births are days:
-- in the morning of UTC its day is the same or, in America, the one before; later it is the same or, in
-- Asia, the next. A patient who was discharged alive did not die before; a birth may be on the other day.
-- A few are errors or organ donors: a tenth of those with such a day nearby are not.
-- In: admissions, patients, places.
WITH near AS (
    SELECT clock_offset,
        admit_timed AND NOT newborn AND abs(coalesce(a.birth_day, p.birth_day) - admit_day) <= 1 AS is_birth,
        is_birth AND coalesce(a.birth_day, p.birth_day) = admit_day + if(hour(admit_time) < 12, -1, 1)
            AS is_other_birth,
        coalesce(l.alive, false) AND p.death_time IS NULL AND discharge_timed AND NOT died_in_hospital
            AND abs(p.death_day - discharge_day) <= 1 AS is_death,
        is_death AND p.death_day = discharge_day - 1 AND hour(discharge_time) < 12 AS is_other_death
    FROM admissions a
    LEFT JOIN patients p USING (patient_id)
    LEFT JOIN places l ON l.place = a.discharge_location
    WHERE fault IS NULL
)
SELECT count_if(is_other_birth OR is_other_death) AS stays,
    stays >= 3 AND stays >= 0.1 * count_if(is_birth OR is_death)
        AND bool_and(coalesce(clock_offset = INTERVAL 0 HOUR, true)) AS is_undecided
FROM near;
