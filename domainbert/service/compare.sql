-- The risks of each other model beside those of one model, on the rows that both scored.
SELECT
    substr(other.model, 1, 12) AS model,
    count(*) AS n,
    100 * avg(other.probability - mine.probability) AS change,
    100 * min(other.probability - mine.probability) AS low,
    100 * max(other.probability - mine.probability) AS high,
    coalesce(sum(other.alert > mine.alert), 0) AS added,
    coalesce(sum(other.alert < mine.alert), 0) AS missed
FROM served AS mine
JOIN served AS other ON other.row = mine.row AND other.model <> mine.model
WHERE mine.model = ? AND mine.status = 'ok' AND other.status = 'ok'
GROUP BY other.model
ORDER BY other.model;
