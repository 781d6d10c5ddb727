"""How a source writes its times, found out once for each column from all of its rows.

A column of times may hold dates: Oracle, SQL Server, pandas and OMOP write a date as midnight, and
MEDS some ends as the last minute of the day. Its times may have offsets from UTC, or be those of a
clock on the wall. What is found is applied to the whole column, said in the flow, and kept in the
cohort's metadata; times of two clocks cannot be compared, and stop the build.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pydantic_core import PydanticCustomError

from domainbert.errors import UserError
from domainbert.tables.sources import quoted

if TYPE_CHECKING:
    import duckdb

Columns: TypeAlias = "tuple[str, Mapping[str, str]]"
"""The name of a table, and our columns that it has with its names for them."""
DATES_FROM = 0.95
"""The share of times at midnight from which on a column holds dates: true times are, by chance, at
midnight in one of 1,440 cells, or in one of 24 where a hospital writes full hours."""
FEWEST_TIMES = 20
"""Of fewer times each is taken as it is."""
_SAID_FROM = 0.05
_NUMBERS = {
    "seconds or milliseconds since 1970": r"\d{9,10}(\.\d+)?|\d{13}",
    "days of a spreadsheet": r"[2-6]\d{4}(\.\d+)?",
}
"""Numbers that stand for times, and how they look."""
_COMPARED = {
    "admissions": ("admit_time", "discharge_time", "death_time", "death_date"),
    "patients": ("death_date", "hospital_death_date", "registered_death_date"),
    "deaths": ("death_date",),
}
"""Our columns whose times are compared, by the table that has them; notes have theirs."""


@dataclass(frozen=True)
class ColumnConvention:
    """How one column of times is written.

    Attributes:
        table: the source's name of the table.
        column: the source's name of the column.
        cells: how many cells have a time or a date that can be read.
        dates: how many of them are dates without a time.
        midnights: how many are a date written as a time.
        offsets: how many of the times have an offset from UTC.
        full_hours: how many of the times are a full hour, by the hour.
        of_notes: whether it is the time of notes; at midnight they count to the end of the day.
    """

    table: str
    column: str
    cells: int
    dates: int
    midnights: int
    offsets: int
    full_hours: Mapping[int, int] = field(default_factory=dict)
    of_notes: bool = False

    @property
    def name(self) -> str:
        """The column as messages name it."""
        return f"{self.table}.{self.column}"

    @property
    def times(self) -> int:
        """Cells with a time of day."""
        return self.cells - self.dates

    @property
    def holds_dates(self) -> bool:
        """Whether the times of the column are dates."""
        return (
            self.times >= FEWEST_TIMES
            and max(self.midnights, self.noons) >= DATES_FROM * self.times
        )

    @property
    def noons(self) -> int:
        """Times at 12:00:00, which some programs write to keep the day in every zone."""
        return self.full_hours.get(12, 0)

    @property
    def shifted_midnights(self) -> list[int]:
        """The hour, or two hours that follow each other, of almost all times; [] for others.

        Midnights of a zone become so in UTC, by summer and winter time.
        """
        if self.holds_dates or self.times < FEWEST_TIMES:
            return []
        for hour in range(24):
            hours = [hour, (hour + 1) % 24]
            counts = [self.full_hours.get(hour, 0) for hour in hours]
            if sum(counts) >= DATES_FROM * self.times:
                return [h for h, n in zip(hours, counts, strict=True) if n]
        return []

    @property
    def clock(self) -> str:
        """Either "offset", "local", "mixed", or "" where there are no times of day."""
        if not self.times or self.holds_dates:
            return ""
        if not self.offsets:
            return "local"
        if self.offsets == self.times:
            return "offset"
        return "mixed"

    def sentence(self) -> str:
        """What a reader of the cohort should know; "" if the column is as it seems."""
        if self.holds_dates:
            count = self.midnights
            words = "midnight or the last minute of a day"
            if self.noons > count:
                count = self.noons
                words = "noon"
            return (
                f"{self.name} holds dates: {count:,} of {self.times:,} times are {words}. "
                "The rules for dates apply."
            )
        hours = self.shifted_midnights
        if len(hours) == 1:
            return (
                f"Almost all times of {self.name} are {hours[0]:02}:00. If they are dates of "
                "another zone that were converted to UTC, name the zone (--zone Asia/Tokyo)."
            )
        fewest = max(FEWEST_TIMES, _SAID_FROM * self.times)
        if self.midnights >= fewest and not self.of_notes:
            return (
                f"{self.name} may hold dates and times: {self.midnights:,} of {self.times:,} "
                "times are midnight. They are read as times."
            )
        return ""

    def facts(self) -> dict[str, str]:
        """What the cohort's metadata keeps."""
        contents = "times"
        if self.holds_dates:
            contents = "dates"
        return {
            "column": self.name,
            "holds": contents,
            "clock": self.clock,
        }


def apply_conventions(
    con: duckdb.DuckDBPyConnection,
    tables: Mapping[str, Columns],
    *,
    zone: str | None,
) -> tuple[list[ColumnConvention], list[str]]:
    """Find out how the columns of times are written, and write each of them in one way.

    Returns them, and sentences on what was changed. Midnights of columns that hold dates become
    dates. With a `zone`, every time gets the clock of that zone. The tables are `raw_admissions`,
    `raw_patients` and `raw_deaths`.

    Raises:
        UserError: columns that are compared have times of two clocks, and no zone is named.
    """
    conventions = []
    remarks: list[str] = []
    for role, columns in _COMPARED.items():
        table, chosen = tables.get(role, ("", {}))
        for ours in columns:
            if ours not in chosen:
                continue
            if zone:
                _rewrite(con, role, ours, f"in_zone({ours}, {quoted(zone)})")
            name = f"{table}.{chosen[ours]}"
            remarks += _empty_stand_ins(con, role, ours, name)
            query = f"SELECT {_PROFILE} FROM raw_{role}"  # noqa: S608
            (counts,) = con.execute(query.format(column=ours)).fetchall()
            convention = ColumnConvention(table, chosen[ours], *counts)
            conventions.append(convention)
            if not convention.cells:
                _refuse_unreadable(con, role, ours, name)
            if convention.holds_dates:
                _rewrite(con, role, ours, f"date_of_midnight({ours})")
    if not zone:
        _refuse_shifted(con, conventions)
    require_one_clock(conventions)
    return conventions, remarks


def _empty_stand_ins(
    con: duckdb.DuckDBPyConnection, role: str, column: str, name: str
) -> list[str]:
    """Empty the cells of a time that stands for none, and say so.

    It is a day of death before all admissions that most cells have, such as 1900-01-01, or a
    discharge more than two years after the last admission, such as 2099-12-31.
    """
    if column == "admit_time":
        return []
    condition = (
        f"moment({column}) > (SELECT max(known_instant(clock(admit_time))) "  # noqa: S608
        "+ INTERVAL 2 YEAR FROM raw_admissions)"
    )
    if column != "discharge_time":
        query = (
            f"SELECT day FROM (SELECT moment({column})::DATE AS day, count(*) AS n, "  # noqa: S608
            f"sum(n) OVER () AS total FROM raw_{role} WHERE moment({column}) IS NOT NULL "
            "GROUP BY day), (SELECT min(moment(admit_time)) AS first FROM raw_admissions) "
            "WHERE n > total / 2 AND n > 1 AND day < first"
        )
        days = con.execute(query).fetchall()
        if not days:
            return []
        condition = f"moment({column})::DATE = DATE {quoted(str(days[0][0]))}"
    query = f"SELECT count(*), min(left({column}, 10)) FROM raw_{role} WHERE {condition}"  # noqa: S608
    ((cells, example),) = con.execute(query).fetchall()
    if not cells:
        return []
    con.execute(f"UPDATE raw_{role} SET {column} = NULL WHERE {condition}")  # noqa: S608
    return [
        f"{name} has {cells:,} times such as {example}, which stand for none."
    ]


def _refuse_unreadable(
    con: duckdb.DuckDBPyConnection, role: str, column: str, name: str
) -> None:
    """Raise if no time of a column can be read, and it has many or they are numbers."""
    query = f"SELECT count(clean({column})) FROM raw_{role}"  # noqa: S608
    ((cells,),) = con.execute(query).fetchall()
    for meaning, pattern in _NUMBERS.items():
        query = (
            f"SELECT count_if(regexp_full_match(trim({column}), $pattern)) "  # noqa: S608
            f"FROM raw_{role}"
        )
        ((matching,),) = con.execute(query, {"pattern": pattern}).fetchall()
        if matching and matching >= DATES_FROM * cells:
            raise UserError(
                f"{name} holds numbers ({cells:,}), perhaps {meaning}; write times as ISO 8601, "
                "such as 2019-12-31 10:00, when the table is exported"
            )
    if cells >= FEWEST_TIMES:
        raise UserError(
            f"none of {cells:,} times of {name} is ISO 8601 (2019-12-31 10:00): day and month are "
            "never guessed; give time_format in a mapping (schema='generic')"
        )


def _are_seasonal(
    con: duckdb.DuckDBPyConnection, role: str, column: str
) -> bool:
    """Whether most months have times of one hour only, as summer and winter time give."""
    query = (
        "SELECT avg((hours = 1)::INT) FROM (SELECT count(DISTINCT full_hour("  # noqa: S608
        f"{column})) AS hours FROM raw_{role} WHERE contains({column}, ':') "
        f"GROUP BY date_trunc('month', moment({column})))"
    )
    ((share,),) = con.execute(query).fetchall()
    return bool(share >= 1 / 2)


def _refuse_shifted(
    con: duckdb.DuckDBPyConnection, conventions: Sequence[ColumnConvention]
) -> None:
    """Raise if admissions and discharges are midnights of a zone that were converted to UTC."""
    first, *_ = conventions
    ends = [column for column in conventions if column.table == first.table]
    hours = [set(column.shifted_midnights) for column in ends[:2]]
    two_hours, *other_hours = hours
    are_subsets = all(h and h <= two_hours for h in other_hours)
    if len(two_hours) != 2 or not are_subsets:
        return
    if not _are_seasonal(con, "admissions", "admit_time"):
        return
    written = " or ".join(
        f"{hour:02}:00" for hour in sorted(set.union(*hours))
    )
    raise UserError(
        f"almost all times of {first.name} are {written}, as dates of another zone become when "
        "they are written in UTC: name that zone, as `zone='Europe/Berlin'` (--zone "
        'Europe/Berlin) or `zone = "Europe/Berlin"` in the mapping; if the times have no offset '
        "from UTC, write them with one, or as dates"
    )


_PROFILE = """
    count(*) FILTER (moment({column}) IS NOT NULL),
    count(*) FILTER (moment({column}) IS NOT NULL AND NOT contains({column}, ':')),
    count(*) FILTER (is_midnight({column})),
    count(*) FILTER (contains({column}, ':') AND has_offset({column})),
    coalesce(histogram(full_hour({column})) FILTER (full_hour({column}) IS NOT NULL), MAP {{}})
"""


def _rewrite(
    con: duckdb.DuckDBPyConnection, role: str, column: str, expression: str
) -> None:
    con.execute(
        f"UPDATE raw_{role} SET {column} = {expression} "  # noqa: S608
        f"WHERE contains({column}, ':')"
    )


def note_conventions(
    con: duckdb.DuckDBPyConnection, tables: Iterable[Columns]
) -> list[ColumnConvention]:
    """How the tables of notes, which were read into `notes`, write their times."""
    conventions = []
    for table, chosen in tables:
        if "chart_time" in chosen:
            (counts,) = con.execute(_NOTES, {"table": table}).fetchall()
            cells, dates, midnights, offsets = counts
            convention = ColumnConvention(
                table,
                chosen["chart_time"],
                cells,
                dates,
                midnights,
                offsets,
                of_notes=True,
            )
            conventions.append(convention)
    return conventions


_NOTES = """
SELECT count(has_offset), 0, count(*) FILTER (has_offset IS NOT NULL AND is_midnight),
    count(*) FILTER (has_offset)
FROM notes WHERE source = $table
"""


def require_one_clock(conventions: Iterable[ColumnConvention]) -> None:
    """Check that all times are of one clock.

    Raises:
        UserError: they are not.
    """
    by_clock: dict[str, ColumnConvention] = {}
    for convention in conventions:
        if convention.clock:
            by_clock.setdefault(convention.clock, convention)
    fix = (
        "name the zone of the times without an offset, as `zone='Europe/Berlin'` "
        '(--zone Europe/Berlin) or `zone = "Europe/Berlin"` in the mapping'
    )
    if mixed := by_clock.get("mixed"):
        raise UserError(
            f"{mixed.name} has {mixed.offsets:,} times with an offset from UTC and "
            f"{mixed.times - mixed.offsets:,} without one, which cannot be compared: {fix}"
        )
    if len(by_clock) > 1:
        raise UserError(
            f"the times of {by_clock['local'].name} have no offset from UTC, and those of "
            f"{by_clock['offset'].name} have one, so they cannot be compared: {fix}"
        )


def check_zone(zone: str | None) -> str | None:
    """The name of a time zone, as the tz database has it.

    Raises:
        UserError: there is none of that name.
    """
    import duckdb

    query = (
        "SELECT name FROM pg_timezone_names() WHERE lower(name) = lower($zone)"
    )
    names = duckdb.execute(query, {"zone": zone or ""}).fetchall()
    if zone and not names:
        raise UserError(
            f"zone {zone!r} is unknown; expected a name such as 'Europe/Berlin' or 'UTC'"
        )
    if not names:
        return None
    spelling: str = names[0][0]
    return spelling


def known_zone(zone: str | None) -> str | None:
    """See `check_zone`, for a model of pydantic."""
    try:
        return check_zone(zone)
    except UserError:
        raise PydanticCustomError(
            "zone", 'the name of a zone such as "Europe/Berlin"'
        ) from None
