-- What `caveats.j2` needs to know of a cohort, in one row.
-- In:  admissions, stays, notes, rules.
WITH kept AS (SELECT * FROM stays WHERE exclusion IS NULL)
SELECT
    (SELECT count_if(discharge_location IN died_locations) FROM admissions, rules) AS dead,
    (SELECT count_if(fault = 'unreadable_time') FROM admissions) AS unreadable,
    (SELECT count(*) FROM kept) AS kept,
    (SELECT count_if(readmitted) FROM kept) AS events,
    (SELECT count_if(discharge_time < episode_start + INTERVAL 4 HOUR) FROM kept) AS short,
    (SELECT count_if(observation) FROM stays) AS observed,
    (SELECT count(*) FROM notes) AS n_notes,
    (SELECT count_if(status = 'used' AND charted_by IS NULL) FROM notes) AS untimed,
    (SELECT data_end FROM rules WHERE derive_data_end) AS derived_end;
