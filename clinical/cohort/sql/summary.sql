-- The flow, the counts and the issues of a finished cohort, as JSON.
-- In:  cohort, flow, deaths, notes, issues, unmatched, rules.
WITH sides AS (      -- a source may have sides of its own, and patients on none of them
    SELECT CASE WHEN grouping(split) = 1 THEN 'all' ELSE split END AS side, {
        'stays': count(*),
        'patients': count(DISTINCT patient_id),
        'readmitted': count(*) FILTER (readmitted = 1),
        'transfers': count(*) FILTER (transfer),
        'died_within_horizon': count(*) FILTER (died_within_horizon)
    } AS counts
    FROM cohort
    WHERE exclusion IS NULL
    GROUP BY ROLLUP (split)
    ORDER BY list_position(['train', 'val', 'test'], side), side
),
problems AS (
    SELECT source, problem, count(*) AS count,
        coalesce(min(coalesce(id, 'row ' || row), 3), []) AS examples
    FROM issues
    GROUP BY source, problem
    ORDER BY source, problem
),
statuses AS (SELECT status, count(*) AS n FROM notes GROUP BY ALL ORDER BY ALL)
SELECT json_object(
    'data_end', (SELECT replace(data_end::VARCHAR, ' ', 'T') FROM rules),
    'steps', (SELECT list(flow) FROM flow),
    'kept', (SELECT counts FROM sides WHERE side = 'all'),
    'deaths', coalesce((SELECT sentence FROM deaths), ''),
    'splits', (SELECT json_group_object(side, counts) FROM sides WHERE side <> 'all'),
    'notes_read', (SELECT json_group_object(status, n) FROM statuses),
    'issues', (SELECT coalesce(list(problems), []) FROM problems),
    'unmatched', {
        'discharge_location':
            (SELECT json_group_object(text, n) FROM unmatched WHERE name = 'discharge_location'),
        'admission_type':
            (SELECT json_group_object(text, n) FROM unmatched WHERE name = 'admission_type')
    }
);
