"""Tables: one checked reader, declared columns, ids, and writers; nothing need fit in memory."""

from domainbert.tables.columns import (
    NOTE,
    PATIENT,
    STAY,
    TEXT,
    TIME,
    Column,
    match_columns,
    require_cells,
    require_columns,
)
from domainbert.tables.formats import DATABASES, FORMATS, ReadOptions, TableError, table_format
from domainbert.tables.frames import (
    atomic_path,
    read_metadata,
    read_table,
    to_frame,
    write_table,
)
from domainbert.tables.ids import id_key, id_text, is_missing, whole_text
from domainbert.tables.rows import (
    Row,
    frame_rows,
    iter_rows,
    source_files,
    spooled,
    table_columns,
)

__all__ = [
    "DATABASES",
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
    "atomic_path",
    "frame_rows",
    "id_key",
    "id_text",
    "is_missing",
    "iter_rows",
    "match_columns",
    "read_metadata",
    "read_table",
    "require_cells",
    "require_columns",
    "source_files",
    "spooled",
    "table_columns",
    "table_format",
    "to_frame",
    "whole_text",
    "write_table",
]
