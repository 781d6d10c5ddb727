-- Lines of the CSV files that are no rows: a field too many or too few, an open quote, bad UTF-8.
-- In:  malformed_lines, malformed_scans (kept by the CSV reader).  Out: appended to issues.
INSERT INTO issues
SELECT DISTINCT
    regexp_extract(file_path, '([^/\\]+)$', 1), line, NULL,
    'line that is no row: ' || lower(replace(error_type::VARCHAR, '_', ' '))
FROM malformed_lines JOIN malformed_scans USING (scan_id, file_id);
