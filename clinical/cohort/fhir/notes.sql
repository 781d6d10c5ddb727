-- Notes with their stay, and with the text of a Binary where they are links.
-- In:  documents, fhir_stays, fhir_Binary.
SELECT documents.* REPLACE (
        CASE WHEN linked.text IS NULL THEN fault END AS fault,
        coalesce(documents.text, linked.text) AS text,
        coalesce(documents.words, linked.words) AS words,
        nullif(concat_ws('; ', documents.remark, linked.remark), '') AS remark),
    coalesce(stay, encounters) AS stay_id
FROM documents
LEFT JOIN fhir_stays ON encounter = encounters
LEFT JOIN fhir_Binary linked ON linked.id = documents.link
