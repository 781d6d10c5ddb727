-- What `caveats.toml` asks about a cohort and its source, in one row.
-- In:  admissions, others, observed_periods, moves, places, unmatched, patients, stays, notes, rules; the schema's facts.
-- Out: facts.
CREATE TABLE facts AS
SELECT
    rules.* REPLACE (coalesce(nullif(array_to_string(died_locations, ' or '), ''), 'listed') AS died_locations),
    $schema = 'generic' AS is_generic,
    $mapped_patients AS mapped_patients,
    $absent AS absent,
    -- Values with their counts, "" for none.
    (SELECT counts_text(other, rows) FROM others)
        AS others,
    (SELECT counts_text(text, n) FROM unmatched
     WHERE name = 'discharge_location') AS locations,
    (SELECT counts_text(text, n) FROM unmatched
     WHERE name = 'admission_type') AS types,
    -- FHIR documents that are not read, by reason.
    (SELECT counts_text(reason, n) FROM (
        SELECT replace(status, '_', ' ') AS reason, count(*) AS n FROM notes
        WHERE names IS NOT NULL AND status IN ('marked_error', 'not_current', 'not_final', 'replaced', 'replaced_by_its_own',
            'older_version', 'copy', 'unreadable_text')
        GROUP BY 1)) AS unread,
    -- Types that begin as one of a summary does, where another is one.
    (SELECT counts_text(category, n) FROM (
        SELECT category, count(*) AS n FROM notes
        WHERE status = 'other_category' AND NOT early
          AND contains(upper(category), regexp_extract(discharge_categories[1], '\w+'))
        GROUP BY category)) AS near_types,
    other_sides,
    split_part(other_sides, ' (', 1) AS first_side,
    horizon_us / 86400e6 AS days,
    places.dead,
    moves.rows AS moved_rows,
    moves.stays AS moved_stays,
    long_others,
    (SELECT count(*) FROM same_ids) AS same_ids,
    long_rows,
    observed_periods.n_open,
    observed_periods.n_periods,
    observed_periods.end_day,
    observed_periods.n_patients AS n_followed,
    observed_periods.n_with_visit,
    observed_periods.are_visits,
    strftime(observed_periods.end_day, '%Y-%m-%d') AS periods_end,
    admissions.unreadable,
    stays.*,
    notes.*
FROM rules, observed_periods, moves,
(SELECT counts_text(other, long_rows) AS long_others, coalesce(sum(long_rows), 0) AS long_rows
 FROM others WHERE long_rows > 0) looks_admitted,
(SELECT coalesce(sum(rows), 0) AS dead FROM places WHERE died) places,
-- Sides that the source gives its patients, other than train, val and test.
(SELECT counts_text(side, n) AS other_sides FROM (
    SELECT coalesce(split, 'none') AS side, count(*) AS n FROM patients
    WHERE (SELECT count(split) FROM patients) > 0
    GROUP BY side
    HAVING side NOT IN ('train', 'val', 'test'))) sides,
(SELECT count(*) AS unreadable FROM admissions WHERE fault = 'unreadable_time') admissions,
(SELECT count(*) AS n_notes, count(*) FILTER (status = 'used' AND charted_by IS NULL) AS untimed
 FROM notes) notes,
(SELECT
    count(*) FILTER (exclusion = 'same_day_death') AS same_day_in_hospital,
    count(*) FILTER (is_kept AND died_same_day AND NOT died_in_hospital) AS same_day_after_discharge,
    count(*) AS n_stays,
    count(*) FILTER (observation) AS observed,
    count(*) FILTER (exclusion = 'still_patient') AS still,
    count(*) FILTER (is_kept) AS kept,
    coalesce(100 * count(*) FILTER (is_kept AND readmitted) / nullif(count(*) FILTER (is_kept), 0), 0)
        AS percent,
    count(*) FILTER (is_kept AND readmitted) AS back,
    count(*) FILTER (is_kept AND readmitted AND return_us < 4 * 3600e6) AS gaps,
    count(*) FILTER (is_kept AND discharge_time < episode_start + INTERVAL 4 HOUR) AS short
 FROM (SELECT *, exclusion IS NULL AS is_kept FROM stays)) stays;
