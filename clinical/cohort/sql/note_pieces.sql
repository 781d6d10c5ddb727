-- Notes whose text is in several rows: the pieces of each note id, in the order of their lines.
-- In:  note_rows, the rows of a table of notes.
-- Out: note_pieces; whole_notes, one row for each note, whose pieces are put together by `separator`: nothing
--      where they were cut at a length, else a line break.
CREATE OR REPLACE TEMP TABLE note_pieces AS
WITH numbered AS (
    SELECT *, coalesce(clean(note_id), concat('row ', row)) AS note, id_key(stay_id) AS stay, number(line) AS line_no
    FROM note_rows
)
SELECT
    arg_min(COLUMNS(lambda c: c NOT IN ('row', 'note', 'stay', 'line', 'line_no', 'text', 'remark', 'other')),
        coalesce(line_no, row)),
    min(row) AS row,
    other,
    list(text ORDER BY line_no, row) FILTER (text IS NOT NULL) AS pieces,
    coalesce(any_value(remark), CASE
        WHEN count(*) > 1 AND (count(DISTINCT line_no) < count(*) OR max(line_no) - min(line_no) + 1 <> count(*))
        THEN 'note whose lines are not numbered one by one, put together in their order' END) AS remark
FROM numbered
GROUP BY note, stay, other;
