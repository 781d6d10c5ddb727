-- What `caveats.toml` asks about a cohort and its source, in one row.
-- In:  admissions, places, stays, notes, rules; the texts that the sentences quote, "" for none.
-- Out: facts.
CREATE TABLE facts AS
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
    places.dead,
    admissions.unreadable,
    stays.*,
    notes.*
FROM rules,
(SELECT coalesce(sum(rows), 0) AS dead FROM places WHERE died) places,
(SELECT count(*) AS unreadable FROM admissions WHERE fault = 'unreadable_time') admissions,
(SELECT count(*) AS n_notes, count(*) FILTER (status = 'used' AND charted_by IS NULL) AS untimed
 FROM notes) notes,
(SELECT
    count(*) FILTER (exclusion = 'same_day_death') AS same_day_in_hospital,
    count(*) FILTER (is_kept AND died_same_day AND NOT died_in_hospital) AS same_day_after_discharge,
    count(*) FILTER (observation) AS observed,
    count(*) FILTER (is_kept) AS kept,
    coalesce(100 * count(*) FILTER (is_kept AND readmitted) / nullif(count(*) FILTER (is_kept), 0), 0)
        AS percent,
    count(*) FILTER (is_kept AND discharge_time < episode_start + INTERVAL 4 HOUR) AS short
 FROM (SELECT *, exclusion IS NULL AS is_kept FROM stays)) stays;
