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
    TableWriter,
    atomic_path,
    iter_table,
    read_metadata,
    read_table,
    write_table,
)
from domainbert.tables.ids import id_key, id_text, is_missing, whole_text
from domainbert.tables.rows import (
    Row,
    SourceRows,
    frame_rows,
    iter_rows,
    open_rows,
    source_files,
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
    "SourceRows",
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
    "open_rows",
    "read_metadata",
    "read_table",
    "require_cells",
    "require_columns",
    "source_files",
    "table_columns",
    "table_format",
    "whole_text",
    "write_table",
]
