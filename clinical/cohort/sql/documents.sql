-- Which FHIR documents are not current: the same rules for cohorts and for calls of CDS Hooks.
-- In:  documents (document, source, id, stay, status, left_out, names, replaces, studies, version, words);
--      lists are texts with spaces, `status` is 'used' for documents that would be read.
-- Out: (document, reason) of those that are not read after all.
WITH older AS (      -- the last version of a resource counts, even where it says that it is an error
    SELECT document FROM documents
    WHERE id IS NOT NULL AND version IS NOT NULL
    QUALIFY version < max(version) OVER (PARTITION BY source, id)
),
latest AS (
    SELECT * FROM documents ANTI JOIN older USING (document)
),
replacing AS (       -- an error replaces nothing, and a draft not before it is signed
    SELECT document AS newer, source, unnest(string_split(replaces, ' ')) AS name
    FROM latest
    WHERE replaces IS NOT NULL AND coalesce(left_out NOT IN ('marked_error', 'not_final'), true)
),
called AS (
    SELECT document, source, unnest(string_split(names, ' ')) AS name
    FROM latest SEMI JOIN (SELECT DISTINCT source FROM replacing) USING (source)
),
replaced AS (        -- also the middle of a chain, and one that its server left current
    SELECT DISTINCT document FROM called JOIN replacing USING (source, name)
    WHERE document <> newer
),
final_studies AS (
    SELECT DISTINCT unnest(string_split(studies, ' ')) AS study FROM latest WHERE left_out IS NULL
),
interim AS (         -- a preliminary report is read until there is a final one of its study
    SELECT DISTINCT document FROM (
        SELECT document, unnest(string_split(studies, ' ')) AS study
        FROM latest WHERE left_out = 'interim'
    ) JOIN final_studies USING (study)
),
judged AS (
    SELECT document, 'older_version' AS reason FROM older
    UNION ALL SELECT document, 'replaced' FROM replaced
    UNION ALL SELECT document, 'not_final' FROM interim ANTI JOIN replaced USING (document)
)
FROM judged
UNION ALL
-- A server exposes one note as several resources, and may send a resource twice: the first is read.
SELECT document, 'copy'
FROM documents ANTI JOIN judged USING (document)
WHERE status = 'used' AND words IS NOT NULL
WINDOW same_words AS (
    PARTITION BY stay, words
    ORDER BY list_position(['DocumentReference', 'Composition', 'DiagnosticReport'], source), document
)
QUALIFY source <> first_value(source) OVER same_words
    OR row_number() OVER (PARTITION BY stay, words, source, id ORDER BY document) > 1 AND id IS NOT NULL;
