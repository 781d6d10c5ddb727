-- The documents that are not current lose their place among the notes that are used.
-- In:  notes; the query of documents.sql stands for its name in braces.  Out: the status of notes.
CREATE TEMP VIEW documents AS
SELECT notes.*, rowid AS document, note_id AS id, stay_no AS stay FROM notes;

CREATE TABLE judged_documents AS
{documents}

UPDATE notes SET status = reason
FROM judged_documents
WHERE document = notes.rowid AND status NOT IN ('no_stay_id', 'unknown_stay', 'other_patient');
