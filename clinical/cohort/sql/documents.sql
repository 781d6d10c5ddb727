-- Which FHIR documents are not read: the same rules for cohorts and for calls of CDS Hooks.
-- In:  documents (document, source, id, stay, text, state, doc_state, names, replaces, codes, studies,
--      version, written, words); lists are texts with spaces, and only what would be read has a text.
-- Out: (document, reason).
WITH older AS (           -- the last version of a resource counts, even where it says that it is an error
    SELECT document FROM (SELECT * REPLACE (version_key(version) AS version) FROM documents)
    WHERE id IS NOT NULL AND version IS NOT NULL
    QUALIFY version < max(version) OVER (PARTITION BY source, id)
),
latest AS (
    SELECT *, CASE
        WHEN 'entered-in-error' IN (coalesce(state, ''), coalesce(doc_state, '')) THEN 'marked_error'
        WHEN source = 'DiagnosticReport'
        THEN CASE WHEN state IN ('registered', 'cancelled') THEN 'not_final' END
        WHEN source = 'DocumentReference' AND state <> 'current' THEN 'not_current'
        -- What is signed. R4 has the first two for documents, R5 the others too.
        WHEN if(source = 'DocumentReference', doc_state, state)
            NOT IN ('final', 'amended', 'corrected', 'appended') THEN 'not_final'
    END AS own
    FROM documents ANTI JOIN older USING (document)
),
replacements AS (    -- an error replaces nothing, and a draft not before it is signed
    SELECT document, source, unnest(string_split(replaces, ' ')) AS name
    FROM latest
    WHERE replaces IS NOT NULL AND coalesce(own, 'not_current') = 'not_current'
),
called AS (
    SELECT document, source, unnest(string_split(names, ' ')) AS name
    FROM latest SEMI JOIN (SELECT DISTINCT source FROM replacements) USING (source)
),
pairs AS (           -- by names of one document only, so that there is a row for each relation
    SELECT r.document, source, name, c.document AS other
    FROM replacements r JOIN (
        SELECT source, name, min(document) AS document
        FROM called GROUP BY source, name HAVING min(document) = max(document)
    ) c USING (source, name)
    WHERE r.document <> c.document
),
ages AS (
    SELECT document, row(coalesce(written, '-infinity'), coalesce(version_key(version), ''), document) AS age
    FROM latest
),
contradicting AS (   -- of two documents that replace each other, the older one
    SELECT p.document, p.source, p.name
    FROM pairs p SEMI JOIN pairs q ON p.document = q.other AND p.other = q.document
    JOIN ages a ON a.document = p.document
    JOIN ages b ON b.document = p.other
    WHERE a.age < b.age
),
replacing AS (
    SELECT source, name, min(document) AS first_newer, max(document) AS last_newer
    FROM replacements ANTI JOIN contradicting USING (document, source, name)
    GROUP BY source, name  -- each name once: a document may repeat one a million times
),
replaced AS (        -- also the middle of a chain, and one that its server left current
    SELECT DISTINCT document FROM called JOIN replacing USING (source, name)
    WHERE document <> first_newer OR document <> last_newer
),
reports AS (         -- by what reports of a study share: identifiers, orders and times with the code
    SELECT document, stay, own, coalesce(state IN ('partial', 'preliminary'), false) AS is_interim,
        unnest(list_concat(
            string_split(names, ' ')[2:],
            list_transform(string_split(coalesce(studies, ''), ' '), lambda s: concat(codes, '+', s))
        )) AS study
    FROM latest
    WHERE source = 'DiagnosticReport'
),
interim AS (         -- a preliminary report is read until there is a final one of its study
    SELECT DISTINCT document FROM (FROM reports WHERE is_interim) SEMI JOIN (
        FROM reports WHERE own IS NULL AND NOT is_interim
    ) USING (stay, study)
),
judged AS (
    SELECT document, 'older_version' AS reason FROM older
    UNION ALL
    SELECT document, CASE
        WHEN own = 'marked_error' THEN own
        WHEN replaced.document IS NOT NULL AND document IN (SELECT document FROM contradicting)
        THEN 'replaced_by_its_own'
        WHEN replaced.document IS NOT NULL THEN 'replaced'
        WHEN interim.document IS NOT NULL THEN 'not_final'
        ELSE own END AS reason
    FROM latest LEFT JOIN replaced USING (document) LEFT JOIN interim USING (document)
    WHERE reason IS NOT NULL
)
FROM judged
UNION ALL
-- A server exposes one note as several resources, and may send a resource twice: the first is read.
SELECT document, 'copy'
FROM documents ANTI JOIN judged USING (document)
WHERE text IS NOT NULL AND words IS NOT NULL
WINDOW same_words AS (
    PARTITION BY stay, words
    ORDER BY list_position(['DocumentReference', 'Composition', 'DiagnosticReport'], source), document
)
QUALIFY source <> first_value(source) OVER same_words
    OR row_number() OVER (PARTITION BY stay, words, source, id ORDER BY document) > 1 AND id IS NOT NULL;
