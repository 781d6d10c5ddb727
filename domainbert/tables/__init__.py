"""Read and write CSV, Parquet and JSON lines in streams: a table need not fit in memory."""

from domainbert.tables.names import FORMATS, TableError, require_columns, table_format
from domainbert.tables.reading import iter_table, read_metadata, read_table, table_columns
from domainbert.tables.writing import TableWriter, atomic_path, write_table

__all__ = [
    "FORMATS",
    "TableError",
    "TableWriter",
    "atomic_path",
    "iter_table",
    "read_metadata",
    "read_table",
    "require_columns",
    "table_columns",
    "table_format",
    "write_table",
]
