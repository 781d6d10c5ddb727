"""Tables: one checked reader, declared columns, ids, and writers; nothing need fit in memory."""

from domainbert.tables.columns import NOTE, PATIENT, STAY, TEXT, TIME, Column, match_columns
from domainbert.tables.ids import id_key, id_text, is_missing
from domainbert.tables.names import (
    FORMATS,
    TableError,
    require_cells,
    require_columns,
    table_format,
)
from domainbert.tables.reading import iter_table, read_metadata, read_table
from domainbert.tables.rows import ReadOptions, Row, frame_rows, iter_rows, table_columns
from domainbert.tables.writing import TableWriter, atomic_path, write_table

__all__ = [
    "FORMATS",
    "NOTE",
    "PATIENT",
    "STAY",
    "TEXT",
    "TIME",
    "Column",
    "ReadOptions",
    "Row",
    "TableError",
    "TableWriter",
    "atomic_path",
    "frame_rows",
    "id_key",
    "id_text",
    "is_missing",
    "iter_rows",
    "iter_table",
    "match_columns",
    "read_metadata",
    "read_table",
    "require_cells",
    "require_columns",
    "table_columns",
    "table_format",
    "write_table",
]
