"""The cues of `biomed.ner.assertion`: words that make an entity negated, possible, and so on."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_WORDS: dict[str, str] = tomllib.loads(
    (Path(__file__).parents[1] / "data" / "cues.toml").read_text(encoding="utf-8")
)
Kind = Literal["any", "disease", "drug"]


@dataclass(frozen=True, eq=False)
class Cue:
    """Words that decide the assertion of entities near them.

    Attributes:
        assertion: of the entities that the cue reaches.
        pattern: the words, in small letters.
        after: whether the cue stands after the entity.
        words: at most so many words between cue and entity.
        items: of a list separated by commas: "one" reaches the first item, "list" also the items
            that are bare names, "all" every item.
        kind: of the entities that it reaches.
        barriers: words over which it does not reach; for drugs, `DRUG_BARRIERS`.
    """

    assertion: str
    pattern: re.Pattern[str]
    after: bool = False
    words: int = 5
    items: Literal["one", "list", "all"] = "one"
    kind: Kind = "any"
    barriers: re.Pattern[str] | None = None

    def fits(self, *, is_drug: bool) -> bool:
        """Whether the cue is for this kind of entity."""
        return self.kind == "any" or (self.kind == "drug") == is_drug


def _of(names: str) -> re.Pattern[str]:
    """One pattern of alternatives that are written one a line; a space may be any white space."""
    lines = [line.strip().replace(" ", r"\s+") for line in names.strip().splitlines()]
    return re.compile(rf"(?<![\w/-])(?:{'|'.join(lines)})(?![\w])")


_RELATIVE, _INFORMANT = (_WORDS[name].replace("\n", "|") for name in ("relative", "informant"))
NOT_A_CUE = _of(_WORDS["not_a_cue"])
TERMINATORS = _of(_WORDS["terminators"])
DRUG_BARRIERS = _of("on\nwith\nw/\nfor\nafter\nfrom\nto\ndespite\ngiven\ntaking\nby")

CUES = (
    Cue(
        "other",
        re.compile(
            rf"(?<![\w/-])(?<!per )(?<!in her )(?<!in his )(?<!in the )(?:{_RELATIVE})"
            rf"(?!\w|\s+(?:{_INFORMANT}))(?:['’]s)?(?:\s+(?:also|both))?(?:\s+(?:has|have|had))?"
        ),
        words=6,
        items="list",
    ),
    Cue("other", _of("family (?:history|hx|h/o)(?: of| for)?\nfhx?(?: of)?"), items="all"),
    Cue(
        "other",
        re.compile(
            rf"\(\s*(?:in\s+)?(?:her\s+|his\s+)?(?:{_RELATIVE})(?!\w)"
            rf"|(?<!\w)in\s+(?:(?:her|his|the|their|a|pt's|patient's)\s+)?(?:{_RELATIVE})(?!\w)"
        ),
        after=True,
        words=2,
    ),
    Cue("negated", _of(_WORDS["negated"]), items="list", kind="disease"),
    Cue("negated", re.compile(r"\[ ?\]|\(-\)"), words=2),
    Cue("negated", _of(_WORDS["not_taken"]), words=3, items="list", kind="drug"),
    Cue("negated", _of(_WORDS["negated_after"]), after=True, words=1),
    Cue("negated", _of(_WORDS["not_taken_after"]), after=True, words=2, kind="drug"),
    Cue("possible", _of(_WORDS["possible"]), kind="disease"),
    Cue("possible", re.compile(r"\?"), words=0, kind="disease"),
    Cue("possible", _of(_WORDS["considered"]), words=3, items="list", kind="drug"),
    Cue("possible", _of(_WORDS["possible_after"]), after=True, words=1, kind="disease"),
    Cue("possible", re.compile(r"\?"), after=True, words=0),
    Cue("possible", _of("if"), after=True, words=3, kind="drug"),
    Cue("historical", _of(_WORDS["historical"]), items="list", kind="disease"),
    Cue("historical", _of(_WORDS["status_post"]), kind="disease", barriers=_of("with\nw/")),
    Cue("historical", _of(_WORDS["past_history"]), words=60, items="all", kind="disease"),
    Cue("historical", _of("h/o\nhx(?: of)?\nhistory of"), words=1, kind="drug"),
    Cue("historical", _of(_WORDS["stopped"]), words=2, items="list", kind="drug"),
    Cue("historical", _of(_WORDS["stopped_after"]), after=True, words=1, kind="drug"),
    Cue("historical", _of(_WORDS["historical_after"]), after=True, words=1, kind="disease"),
)

# Section headings in small letters, and what they make of a disease and of a drug.
SECTIONS: dict[str, tuple[str, str]] = {
    heading: (disease, drug)
    for disease, drug, headings in (
        ("historical", "", "past_sections"),
        ("other", "other", "family_sections"),
        ("historical", "negated", "allergy_sections"),
        ("possible", "", "precaution_sections"),
    )
    for heading in _WORDS[headings].split("\n")
}
