-- The flow, the counts and the issues of a finished cohort, as JSON.
-- In:  cohort, flow, incidence, notes, issues, unmatched, rules.

-- Without a row the aggregate is NULL.
CREATE MACRO counted_names(names, counts) AS coalesce(json_group_object(names, counts), '{}'::JSON);

WITH sides AS MATERIALIZED (      -- a source may have sides of its own, and patients on none of them
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
statuses AS (SELECT status, count(*) AS n FROM notes GROUP BY ALL ORDER BY ALL),
parts(position, name, value) AS (    -- as rows: subqueries in one row would be joined with each other
    SELECT 1, 'data_end', to_json(replace(data_end::VARCHAR, ' ', 'T')) FROM rules
    UNION ALL
    SELECT 2, 'steps', to_json(list(flow)) FROM flow
    UNION ALL
    SELECT 3, 'kept', to_json(any_value(counts)) FROM sides WHERE side = 'all'
    UNION ALL
    SELECT 4, 'deaths', to_json(coalesce(format(
        'Within {:g} days of discharge {:.1f}% came back and {:.1f}% died before they could (cumulative '
        'incidence with death as a competing event, Aalen-Johansen); {:,} of the stays that count as not '
        'readmitted had died.',
        horizon_us / 86400e6, 100 * back, 100 * dead,
        (SELECT count(*) FROM cohort WHERE readmitted = 0 AND died_within_horizon)), ''))
    FROM incidence, rules
    UNION ALL
    SELECT 5, 'splits', counted_names(side, counts) FROM sides WHERE side <> 'all'
    UNION ALL
    SELECT 6, 'notes_read', counted_names(status, n) FROM statuses
    UNION ALL
    SELECT 7, 'issues', to_json(coalesce(list(problems), [])) FROM problems
    UNION ALL
    SELECT 8, 'unmatched', to_json({
        'discharge_location':
            (SELECT counted_names(text, n) FROM unmatched WHERE name = 'discharge_location'),
        'admission_type':
            (SELECT counted_names(text, n) FROM unmatched WHERE name = 'admission_type')
    })
)
SELECT concat('{', string_agg(concat('"', name, '":', coalesce(value, 'null')), ',' ORDER BY position), '}')
FROM parts;
