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
from domainbert.tables.frames import (
    read_table,
    to_frame,
    write_table,
)
from domainbert.tables.ids import (
    ExactId,
    id_key,
    id_text,
    is_missing,
    key_like,
)
from domainbert.tables.options import ReadOptions, TableError, is_text_file
from domainbert.tables.rows import (
    Row,
    iter_rows,
    source_files,
    table_columns,
)
