"""`AssertionRules`: the cues of `cues.toml`, and those of a user, as compiled patterns."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field

from biomed.corpora.documents import Assertion
from biomed.notes.patterns import Match, Patterns, TimedPattern
from domainbert.errors import UserError
from domainbert.settings import Settings

Label = Literal["disease", "drug"]
RuleSource = str | Path | Sequence[Mapping[str, object]]
"""Cues of a user: a TOML file of `[[cue]]` tables, as in `cues.toml`, or a list of such tables."""

_FILE = Path(__file__).parent / "cues.toml"
_Reach = Annotated[int, Field(ge=0, le=100)]


class CueRow(Settings):
    """A cue as it is written.

    Attributes:
        assertion: the assertion of the entities that the cue reaches.
        words: the cues as notes write them, one per line.
        patterns: instead, lines for `Patterns`.
        regex: instead, one regular expression; it may name macros.
        after: whether the cue stands after the entity.
        reach: at most so many words between cue and entity.
        items: which items of a list with commas it reaches: "one" the first item, "list" bare
            names, and "all" every item.
        label: of the entities that it reaches.
        stops: words over which it does not reach, one per line.
        over_section: whether it counts more than the section of the note.
    """

    assertion: Assertion
    words: str = ""
    patterns: str = ""
    regex: str = ""
    after: bool = False
    reach: _Reach = 5
    items: Literal["one", "list", "all"] = "one"
    label: Literal["any", "disease", "drug"] = "any"
    stops: str = ""
    over_section: bool = False


@dataclass(frozen=True, eq=False)
class Cue:
    """A cue with its patterns; one that is attached stands directly after an entity."""

    row: CueRow
    pattern: re.Pattern[str] | TimedPattern
    stops: re.Pattern[str] | TimedPattern
    is_attached: bool

    def matches(self, text: str, ends: Iterable[int]) -> Iterator[Match]:
        """Where the cue is in a text whose entities have these ends."""
        if not self.is_attached:
            yield from self.pattern.finditer(text)
            return
        for end in ends:
            if match := self.pattern.match(text, end):
                yield match


@dataclass(frozen=True, eq=False)
class AssertionRules:
    """Cues for diseases and for drugs; `source` is the user's rows, for fingerprints."""

    cues: Mapping[Label, Sequence[Cue]]
    source: tuple[Mapping[str, object], ...] = ()

    @classmethod
    def read(cls, extra: RuleSource | None = None) -> AssertionRules:
        """The rules of the package, and those of a user.

        Raises:
            UserError: a file that is not TOML, or a row that is not a cue.
        """
        if extra is None:
            return _package_rules()
        return _built(_user_rows(extra))


@cache
def _package_rules() -> AssertionRules:
    return _built({})


def _built(user_rows: Mapping[str, CueRow]) -> AssertionRules:
    """The rules of the package and the user's, which have names."""
    data = tomllib.loads(_FILE.read_text("utf-8"))
    package_rows = [("", CueRow(**row)) for row in data["cue"]]
    rows = [*package_rows, *user_rows.items()]
    cues = {}
    for label in get_args(Label):
        labels = ("any", label)
        cues[label] = [
            _cue(row, label, data, name=name)
            for name, row in rows
            if row.label in labels
        ]
    source = tuple(row.model_dump() for row in user_rows.values())
    return AssertionRules(cues, source)


def _user_rows(extra: RuleSource) -> dict[str, CueRow]:
    """The rows of a user by name, checked."""
    name = "assertion_rules"
    rows: object = extra
    if isinstance(extra, str | Path):
        name = str(extra)
        try:
            rows = tomllib.loads(Path(extra).read_text("utf-8")).get("cue")
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UserError(f"{name}: expected a TOML file: {error}") from None
    if not isinstance(rows, list | tuple) or not rows:
        raise UserError(f"{name}: expected [[cue]] tables, got none")
    names = [f"{name}, cue {number}" for number in range(1, len(rows) + 1)]
    return {
        name: _user_row(row, name)
        for name, row in zip(names, rows, strict=True)
    }


def _user_row(values: object, name: str) -> CueRow:
    """A user's cue, checked."""
    if not isinstance(values, Mapping):
        raise UserError(
            f"{name}: expected a table, got {type(values).__name__}"
        )
    try:
        row = CueRow(**values)
        re.compile(row.regex)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    except re.error as error:
        raise UserError(f"{name}: regex: {error}") from None
    forms = [row.words.strip(), row.patterns.strip(), row.regex]
    if sum(map(bool, forms)) != 1:
        raise UserError(f"{name}: expected one of words, patterns and regex")
    return row


def _cue(
    row: CueRow,
    label: Label,
    data: Mapping[str, dict[str, str]],
    *,
    name: str = "",
) -> Cue:
    """A cue of a file, whose patterns may name macros; those of a user have a name."""
    compiler = Patterns(data["macros"])
    if row.regex:
        pattern = compiler.regex(row.regex)
    else:
        pattern = compiler.words(row.patterns or _literal(row.words))
    tables = data["stops"]
    names = ["all", row.assertion]
    if row.assertion != "other":  # "Husband takes warfarin"
        names.append(label)
    stops = [tables.get(name, "") for name in names]
    stop_pattern = compiler.words("\n".join([*stops, row.stops]))
    is_attached = row.regex != "" and row.after and row.reach == 0
    if name:
        timed_pattern = TimedPattern(pattern, name)
        timed_stops = TimedPattern(stop_pattern, name)
        return Cue(row, timed_pattern, timed_stops, is_attached)
    return Cue(row, pattern, stop_pattern, is_attached)


def _literal(words: str) -> str:
    """The pattern of words whose characters stand for themselves."""
    lines = [re.escape(line.strip()) for line in words.lower().splitlines()]
    return "\n".join(lines).replace(r"\ ", " ")
