-- What `caveats.toml` asks about a cohort and its source, in one row.
-- In:  admissions, places, stays, notes, rules; the texts that the sentences quote, "" for none.
-- Out: facts.
CREATE TABLE facts AS
WITH kept AS (SELECT * FROM stays WHERE exclusion IS NULL)
SELECT
    rules.* REPLACE (coalesce(nullif(array_to_string(died_locations, ' or '), ''), 'listed') AS died_locations),
    $schema = 'generic' AS is_generic,
    $shifted_dates::BOOLEAN AS shifted_dates,
    $mapped_patients AS mapped_patients,
    $absent AS absent,
    $others AS others,
    $locations AS locations,
    $types AS types,
    $unread AS unread,
    $other_sides AS other_sides,
    split_part($other_sides, ' (', 1) AS first_side,
    horizon_us / 86400e6 AS days,
    (SELECT coalesce(sum(rows), 0) FROM places WHERE died) AS dead,
    (SELECT count(*) FROM stays WHERE exclusion = 'same_day_death') AS same_day_in_hospital,
    (SELECT count(*) FROM kept WHERE died_same_day AND NOT died_in_hospital) AS same_day_after_discharge,
    (SELECT count_if(fault = 'unreadable_time') FROM admissions)::BIGINT AS unreadable,
    (SELECT count(*) FROM kept) AS kept,
    (SELECT coalesce(100 * count_if(readmitted) / nullif(count(*), 0), 0) FROM kept) AS percent,
    (SELECT count_if(discharge_time < episode_start + INTERVAL 4 HOUR) FROM kept)::BIGINT AS short,
    (SELECT count_if(observation) FROM stays)::BIGINT AS observed,
    (SELECT count(*) FROM notes) AS n_notes,
    (SELECT count_if(status = 'used' AND charted_by IS NULL) FROM notes)::BIGINT AS untimed
FROM rules;
