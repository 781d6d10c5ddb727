-- Notes with their stay, and with the text of a Binary where they are links.
-- In:  documents, fhir_stays, fhir_Binary.
SELECT documents.* REPLACE (
        CASE WHEN linked.text IS NULL THEN fault END AS fault,
        coalesce(documents.text, linked.text) AS text,
        coalesce(documents.words, linked.words) AS words,
        nullif(concat_ws('; ', documents.remark, linked.remark), '') AS remark),
    -- Of several encounters, the first of these that is an admission.
    coalesce(a.stay, b.stay, c.stay, split_part(encounters, ' ', 1)) AS stay_id
FROM documents
LEFT JOIN fhir_stays a ON a.encounter = split_part(encounters, ' ', 1)
LEFT JOIN fhir_stays b ON b.encounter = split_part(encounters, ' ', 2)
LEFT JOIN fhir_stays c ON c.encounter = split_part(encounters, ' ', 3)
LEFT JOIN fhir_Binary linked ON linked.id = documents.link
