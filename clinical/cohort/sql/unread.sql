-- The FHIR documents that are not read, by reason.  In: notes.  Out: (reason, n).
SELECT replace(status, '_', ' ') AS reason, count(*) AS n
FROM notes
WHERE names IS NOT NULL AND status IN (
    'marked_error', 'not_current', 'not_final', 'replaced', 'older_version', 'copy', 'unreadable_text')
GROUP BY 1
ORDER BY n DESC, 1;
