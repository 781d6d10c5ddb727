-- How many stays depend on the zone of the hospital, where all times are in UTC and deaths or births are days:
-- in the morning of UTC its day is the same or, in America, the one before; later it is the same or, in
-- Asia, the next. A patient who was discharged alive did not die before; a birth may be on the other day.
-- In: admissions, patients, places.
SELECT count_if(
    coalesce(l.alive, false) AND p.death_time IS NULL AND discharge_timed AND NOT died_in_hospital
        AND coalesce(p.death_day = discharge_day - 1 AND hour(discharge_time) < 12, false)
    OR admit_timed AND NOT newborn AND coalesce(
        coalesce(a.birth_day, p.birth_day) = admit_day + if(hour(admit_time) < 12, -1, 1), false)) AS stays,
    bool_and(coalesce(clock_offset = INTERVAL 0 HOUR, true)) AS is_utc
FROM admissions a
LEFT JOIN patients p USING (patient_id)
LEFT JOIN places l ON l.place = a.discharge_location
WHERE fault IS NULL;
