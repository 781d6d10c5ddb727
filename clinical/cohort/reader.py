"""Read the tables of a source into DuckDB, and decide about every row with the SQL steps."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Literal

from clinical.cohort.conventions import (
    ColumnConvention,
    apply_conventions,
    note_conventions,
    require_one_clock,
)
from clinical.cohort.source import ROLES, MatchedTable, Tables, step
from clinical.stays import note_rules
from clinical.stays.choice import NoteChoice
from clinical.stays.pieces import separator
from domainbert.errors import UserError
from domainbert.tables.sources import quoted

if TYPE_CHECKING:
    import duckdb

    from clinical.cohort.definition import Definition, Schema
    from domainbert.tables.sources import Source

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """The checked arguments of `build_cohort`; `hours` for early notes only."""

    schema: Schema
    notes: str
    hours: float | None
    definition: Definition
    seed: int
    data_end: datetime | None
    derive_data_end: bool
    split_by: str
    fractions: Mapping[str, float]

    @property
    def choice(self) -> NoteChoice:
        """Which notes of a stay are read."""
        notes: Literal["early", "discharge"] = "discharge"
        if self.notes == "early":
            notes = "early"
        return NoteChoice(
            notes=notes,
            hours=self.hours,
            summaries=self.schema.summary_categories,
            addenda=self.schema.addendum_kinds,
            transfer_gap_hours=self.definition.episode.transfer_gap_hours,
            definition=f"{self.definition.name} {self.definition.version}",
            definition_sha256=self.definition.sha256,
            event=self.definition.event,
        )


@dataclass(frozen=True)
class CohortReader:
    """Reads the tables of an open source with the SQL steps of the package."""

    con: duckdb.DuckDBPyConnection
    source: Source
    schema: Schema
    choice: NoteChoice
    conventions: list[ColumnConvention] = field(default_factory=list)

    def read(self, tables: Tables) -> None:
        """Read every table, and decide about every row except for the texts of the stays."""
        import pandas as pd

        run = self.con.execute
        for role in ROLES:
            table = getattr(tables, role)
            if table:
                self._scan(f"CREATE TABLE raw_{role} AS", table, numbered=True)
        run(step("absent") + step("moves") + step("places"))
        self._check_places(tables.admissions.name)
        conventions, remarks = apply_conventions(
            self.con, tables.columns_by_role, zone=self.schema.zone
        )
        self.conventions.extend(conventions)
        self.source.remarks.extend(remarks)
        for name in (
            "merged",
            "follow_up",
            "admissions",
            "patients",
            "episodes",
            "stays",
            "note_stays",
            "note_table",
        ):
            run(step(name))
        self._check_days(tables.admissions.name)
        self._create_note_functions()
        for note_table in tables.notes:
            _log.info("reading %s", note_table.name)
            self._read_notes(note_table)
        self._check_notes(tables)
        run(step("same_ids"))
        if any("names" in table.chosen for table in tables.notes):
            run(step("current").replace("{documents}", step("documents")))
        # A file that several tables are looked for in is listed once.
        file_faults = list(
            dict.fromkeys(chain(*self.source.file_faults.values()))
        )
        listed = pd.DataFrame(
            file_faults, columns=["source", "line", "problem"]
        )
        self.con.register("listed_faults", listed)
        run(step("encodings"))
        self.source.check_unchanged()

    def _check_places(self, table: str) -> None:
        """Raise if stays that may have ended in death would count as discharged alive.

        That places are read as codes is said.
        """
        query = "SELECT 1 FROM places WHERE is_read_as_code LIMIT 1"
        if self.con.execute(query).fetchone():
            self.source.remarks.append(
                f"The places of discharge of {table} are codes of the US claim form (UB-04): 20 "
                "and 40 to 42 are deaths, 30 is a patient who is still in hospital."
            )
        query = (
            "FROM places SELECT list(place ORDER BY place), counts_text(place, not_marked) "
            "WHERE looks_dead AND not_marked > 0"
        )
        ((places, counts),) = self.con.execute(query).fetchall()
        if not counts:
            return
        raise UserError(
            f"{table} has stays whose place of discharge may mean death: {counts}. "
            f"If so, add `died_locations={places}`, or died_locations to the mapping; if not, "
            "add alive_locations to the mapping"
        )

    def _check_days(self, table: str) -> None:
        """Raise if times in UTC are compared with days of a clock that nobody named."""
        clocks = {convention.clock for convention in self.conventions}
        if self.schema.zone or "offset" not in clocks:
            return
        query = step("undecided_days")
        ((stays, is_undecided),) = self.con.execute(query).fetchall()
        if is_undecided:
            raise UserError(
                f"the times of {table} are in UTC, and dates of death or birth are days of the "
                f"hospital's clock, which may differ for {stays:,} stays: name the zone, as "
                "`zone='America/New_York'` (--zone America/New_York) or in the mapping; `UTC` if "
                "it is that"
            )

    def _check_notes(self, tables: Tables) -> None:
        """Check the clock of the notes; early ones with dates count to the end of their day."""
        conventions = note_conventions(
            self.con, [(table.name, table.chosen) for table in tables.notes]
        )
        self.conventions.extend(conventions)
        require_one_clock(self.conventions)
        for convention in conventions:
            if convention.holds_dates and self.choice.notes == "early":
                self.con.execute(
                    step("note_days"), {"table": convention.table}
                )

    def _create_note_functions(self) -> None:
        """Give SQL the rules of `clinical/stays/note_rules.py`."""
        create = partial(
            self.con.create_function, type="arrow", null_handling="special"
        )
        create(
            "judge_note",
            self.choice.judge,
            [note_rules.FACTS_TYPE],
            note_rules.VERDICT_TYPE,
        )
        create(
            "note_position",
            self.choice.positions,
            ["TIMESTAMP", "VARCHAR", "VARCHAR"],
            "VARCHAR",
        )
        create("copy_text", note_rules.copy_text, ["VARCHAR"], "VARCHAR")

    def _read_notes(self, table: MatchedTable) -> None:
        """Read a table of notes into `notes`, in memory that does not grow with their number."""
        run = self.con.execute
        run("SET VARIABLE note_table = $name", {"name": table.name})
        # The planner cannot know how many notes there are, and must not hash them.
        run("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        if "line" in table.chosen:
            self._join_pieces(table)
            run(step("notes"))
            run("RESET disabled_optimizers")
            return
        numbered = "note_id" not in table.chosen
        run(f"SET preserve_insertion_order = {numbered}")
        view = "CREATE OR REPLACE TEMP VIEW raw_notes AS"
        self._scan(view, table, numbered=numbered, next_step="notes")
        run("RESET preserve_insertion_order")
        run("RESET disabled_optimizers")

    def _join_pieces(self, table: MatchedTable) -> None:
        """Make `raw_notes` of a table with the pieces of each note in rows of their own."""
        view = "CREATE OR REPLACE TEMP VIEW note_rows AS"
        self._scan(view, table, numbered=True, next_step="note_pieces")
        lengths = self.con.execute(
            "SELECT list_transform(pieces, lambda p: length(p)) FROM note_pieces "
            "WHERE len(pieces) > 1 LIMIT 10000"
        ).fetchall()
        between = quoted(separator([list(pieces) for (pieces,) in lengths]))
        self.con.execute(
            "CREATE OR REPLACE TEMP VIEW raw_notes AS SELECT * EXCLUDE (pieces), "  # noqa: S608
            f"array_to_string(pieces, {between}) AS text FROM note_pieces"
        )

    def _scan(
        self,
        create: str,
        table: MatchedTable,
        *,
        numbered: bool,
        next_step: str = "",
    ) -> None:
        """Scan a table; its malformed lines are listed and left out."""
        import duckdb

        zone = self.schema.zone
        try:
            query = table.query(self.source, self.schema, numbered=numbered)
            if zone and next_step:  # notes; other tables are rewritten later
                in_zone = f"in_zone(chart_time, {quoted(zone)})"
                query = f"SELECT * REPLACE ({in_zone} AS chart_time) FROM ({query})"  # noqa: S608
            self.con.execute(f"{create} {query}")
            if next_step:
                self.con.execute(step(next_step))
        except duckdb.Error:
            for error in self.source.errors.values():
                raise error from None  # it says itself what is wrong
            raise
