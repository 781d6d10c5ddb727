-- The status of every note; notes.sql fills it, for one table of the source after the other.
CREATE TABLE notes (
    source VARCHAR,
    row BIGINT,
    stay_no BIGINT,
    note_id VARCHAR,
    stay_id VARCHAR,
    status VARCHAR,
    is_unreadable BOOLEAN,
    has_offset BOOLEAN,  -- of a time of day
    is_midnight BOOLEAN,
    charted_by TIMESTAMP,
    category VARCHAR,
    kind VARCHAR,
    text_hash UBIGINT,
    text VARCHAR,
    state VARCHAR,   -- from here on what documents.sql and issues.sql need of FHIR documents
    doc_state VARCHAR,
    names VARCHAR,
    replaces VARCHAR,
    codes VARCHAR,
    studies VARCHAR,
    version VARCHAR,
    written TIMESTAMP,
    words VARCHAR,
    remark VARCHAR
);
