-- The groups of the diagnosis codes of each row of the cohort; stays of one episode have theirs together.
-- In:  raw_diagnoses (row, stay_id, code, system, rank, other), note_stays, code_groups, and the
--      values grouping ('category', 'code', 'table') and primary_only.
-- Out: stay_groups; code_facts (one row).

CREATE TABLE codes_read AS
WITH read AS (
    SELECT
        id_key(stay_id) AS stay_id,
        -- With and without dots they are one.
        nullif(regexp_replace(upper(code), '[^A-Z0-9]', '', 'g'), '') AS code,
        CASE
            WHEN clean(system) IS NULL THEN ''
            WHEN regexp_matches(lower(system), 'icd[-_ ]?10|^\s*10(\.0)?\s*$|6\.90$|6\.3$') THEN '10'
            WHEN regexp_matches(lower(system), 'icd[-_ ]?9|^\s*9(\.0)?\s*$|6\.103$') THEN '9'
            ELSE 'other'
        END AS system,
        number(rank) AS rank
    FROM raw_diagnoses
    WHERE other IS NULL
)
SELECT *,
    bool_or(system = '9') OVER () AND bool_or(system = '10') OVER () AS is_mixed
FROM read;

CREATE TABLE stay_groups AS
WITH matched AS (
    SELECT note_stays.stay_no, codes_read.*
    FROM codes_read JOIN note_stays USING (stay_id)
    WHERE note_stays.stay_no IS NOT NULL AND code IS NOT NULL
      AND (system <> 'other' OR $grouping <> 'category')
      AND (NOT $primary_only::BOOLEAN OR rank = 1)
),
named AS (
    SELECT stay_no, CASE
        WHEN $grouping = 'table' THEN code_groups.group_name
        -- The same characters mean another thing in the other system.
        ELSE concat(CASE WHEN is_mixed AND system = '9' THEN 'ICD9:' END, CASE
            WHEN $grouping = 'code' THEN matched.code
            WHEN system = '9' AND matched.code LIKE 'E%' THEN left(matched.code, 4)
            ELSE left(matched.code, 3) END)
        END AS group_name
    FROM matched LEFT JOIN code_groups ON code_groups.code = matched.code
)
SELECT stay_no,
    coalesce(list(DISTINCT group_name ORDER BY group_name) FILTER (group_name IS NOT NULL), [])
        AS diagnoses
FROM named
GROUP BY stay_no;

CREATE TABLE code_facts AS
SELECT
    count(*) AS n_codes,
    count(*) FILTER (system = '9') AS n_icd9,
    count(*) FILTER (system = '10') AS n_icd10,
    count(*) FILTER (system = 'other') AS n_other,
    count(*) FILTER (codes_read.code IS NULL) AS n_empty,
    count(*) FILTER (note_stays.stay_id IS NULL) AS n_no_stay,
    count(*) FILTER ($grouping = 'table' AND codes_read.code IS NOT NULL AND code_groups.code IS NULL)
        AS n_unmapped,
    count(*) FILTER (rank = 1) AS n_primary
FROM codes_read
LEFT JOIN note_stays USING (stay_id)
LEFT JOIN code_groups ON code_groups.code = codes_read.code;
