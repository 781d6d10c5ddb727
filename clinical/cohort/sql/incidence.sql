-- The chance of each event to come first, the other competing (Aalen and Johansen 1978).
-- In:  followed (days, event: 1 or 2, and 0 where follow-up ended first).
-- Out: incidence; its row is empty where nothing was followed.
CREATE TABLE incidence AS
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
SELECT sum(share * back / at_risk) AS back, sum(share * dead / at_risk) AS dead FROM free;
