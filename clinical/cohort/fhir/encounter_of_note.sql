-- Of several encounters that a note names: the admission, or part of one, in which the note was written;
-- or else the first of these that is one; or else the first.
-- In:  lists of notes: rows, encounters with spaces between them, times; fhir_stays.
WITH notes AS (
    SELECT unnest($rows::BIGINT[]) AS note, unnest($times::VARCHAR[]) AS time,
        string_split(unnest($lists::VARCHAR[]), ' ') AS encounters
),
named AS (
    SELECT note, moment(time) AS written, unnest(encounters) AS name,
        unnest(range(len(encounters))) AS position
    FROM notes
)
SELECT note, first(name ORDER BY stay IS NULL,
    coalesce(written BETWEEN began AND ended + INTERVAL 1 DAY, false) DESC, position)
FROM named LEFT JOIN fhir_stays ON encounter = name
GROUP BY note
