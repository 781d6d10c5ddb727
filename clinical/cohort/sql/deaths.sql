-- What deaths after discharge mean for readmissions, as a sentence; none where they are unknown.
-- The chance of each event to come first, the other competing (Aalen and Johansen 1978).
-- In:  followed (days, event: 1 or 2, and 0 where follow-up ended first), cohort, rules.
-- Out: deaths.
CREATE TABLE deaths AS
WITH times AS (
    SELECT days, count_if(event = 1) AS back, count_if(event = 2) AS dead, count(*) AS leaving
    FROM followed
    GROUP BY days
),
risk AS (
    SELECT days, back, dead, sum(leaving) OVER (
        ORDER BY days ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS at_risk
    FROM times
),
free AS (   -- of both events, before each time
    SELECT *, coalesce(product(1 - (back + dead) / at_risk) OVER (
        ORDER BY days ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 1) AS share
    FROM risk
)
SELECT format('Within {:g} days of discharge {:.1f}% came back and {:.1f}% died before they could '
    '(cumulative incidence with death as a competing event, Aalen-Johansen); {:,} of the stays that '
    'count as not readmitted had died.',
    (SELECT horizon_us / 86400e6 FROM rules),
    sum(100 * share * back / at_risk), sum(100 * share * dead / at_risk),
    (SELECT count(*) FROM cohort WHERE readmitted = 0 AND died_within_horizon)) AS sentence
FROM free
HAVING count(*) > 0;
