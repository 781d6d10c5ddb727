-- What `caveats.toml` needs to know about a cohort, in one row.
-- In:  admissions, places, stays, notes, rules.
WITH kept AS (SELECT * FROM stays WHERE exclusion IS NULL)
SELECT
    (SELECT sum(rows) FROM places WHERE died) AS dead,
    (SELECT count(*) FROM stays WHERE exclusion = 'same_day_death') AS same_day_in_hospital,
    (SELECT count(*) FROM kept WHERE died_same_day AND NOT died_in_hospital) AS same_day_after_discharge,
    (SELECT has_follow_up FROM rules) AS has_follow_up,
    (SELECT count_if(fault = 'unreadable_time') FROM admissions) AS unreadable,
    (SELECT count(*) FROM kept) AS kept,
    (SELECT coalesce(100 * count_if(readmitted) / nullif(count(*), 0), 0) FROM kept) AS percent,
    (SELECT count_if(discharge_time < episode_start + INTERVAL 4 HOUR) FROM kept) AS short,
    (SELECT count_if(observation) FROM stays) AS observed,
    (SELECT count(*) FROM notes) AS n_notes,
    (SELECT count_if(status = 'used' AND charted_by IS NULL) FROM notes) AS untimed,
    (SELECT data_end FROM rules WHERE derive_data_end) AS derived_end;
