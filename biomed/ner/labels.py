"""Labels of published networks (IOB2, IOB1, IOBES, BILOU, plain types) read as IOB2 tags."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from biomed.corpora.documents import OUTSIDE
from biomed.ner.decoding import TagScheme, tags_for
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMES = ("iob2", "iob1", "iobes", "raw")
_BEGIN, _INSIDE = frozenset("BSUW"), frozenset("IELM")
_MARKED = re.compile(r"([BIESLUWM])[-_](.+)")
# Outputs for tokens that are no words, which some trainings count.
_SPECIAL = frozenset({"X", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "CLS", "SEP", "PAD", "<pad>"})
_UNNAMED = re.compile(r"LABEL_\d+")
_JUST_BELOW = 1e-4  # in IOB1, continuing an entity goes before starting another one


@dataclass(frozen=True, eq=False)
class Outputs:
    """How a network's outputs become IOB2 tags.

    Attributes:
        names: of the outputs.
        scheme: the tags.
        sums: for each tag, the outputs whose probabilities it sums; empty if outputs are tags.
        starts_inside: whether an entity may start with I, as in IOB1.
    """

    names: tuple[str, ...]
    scheme: TagScheme
    sums: tuple[tuple[int, ...], ...] = ()
    starts_inside: bool = False

    def tags(self, outputs: np.ndarray) -> np.ndarray:
        """Log-probabilities of the tags, shape (words, tags), from those of the outputs.

        Where an entity may start with I, the probability of B is at least just below that of I, so
        the rows may sum to more than 1.
        """
        if not self.sums:
            return outputs
        tags = np.full((len(outputs), len(self.sums)), -np.inf, dtype=outputs.dtype)
        for tag, columns in enumerate(self.sums):
            for column in columns:
                tags[:, tag] = np.logaddexp(tags[:, tag], outputs[:, column])
        if self.starts_inside:
            begin, inside = self.scheme.begin, self.scheme.inside
            tags[:, begin] = np.maximum(tags[:, begin], tags[:, inside] - _JUST_BELOW)
        return tags


def read_labels(names: Sequence[str], given: str | None = None) -> Outputs:
    """How to read a network's outputs.

    Args:
        names: of the outputs, from the model's configuration.
        given: replaces them: "O,B-Disease,I-Disease". A scheme may stand in front, or alone:
            "iob1:" for entities that start with I, "iobes:" (or BILOU), "raw:" for types without
            marks, "iob2:". By default the names tell the scheme.

    Raises:
        UserError: names that say nothing (`LABEL_0`), no O, or another number of names.
    """
    scheme, listed = _given(given)
    if listed and len(listed) != len(names):
        msg = f"labels: the network has {len(names)} outputs, but {len(listed)} names were given"
        raise UserError(msg)
    named = tuple(listed or names)
    if all(map(_UNNAMED.fullmatch, named)):
        msg = (
            f"the network's {len(named)} outputs have no names ({named[0]}, …); name them in order "
            "with labels (--labels), such as O,B-Disease,I-Disease"
        )
        raise UserError(msg)
    scheme = scheme or _guess(named)
    types = [name[2:] for name in named if name.startswith("B-")]
    if types and scheme == "iob2" and sorted(named) == sorted(tags_for(types)):
        return Outputs(named, TagScheme.of(named))
    return _mapped(named, scheme)


def _given(given: str | None) -> tuple[str | None, list[str]]:
    """The scheme and the names of a text such as "iob1:O,I-x"."""
    front, colon, rest = (given or "").partition(":")
    scheme = front.strip().casefold() if colon else None
    if scheme is not None and scheme not in SCHEMES:
        msg = f"labels: expected one of {', '.join(SCHEMES)} before the colon, got {front!r}"
        raise UserError(msg)
    return scheme, [name.strip() for name in (rest if colon else front).split(",") if name.strip()]


def _guess(names: Sequence[str]) -> str:
    marks: dict[str, set[str]] = defaultdict(set)
    for name in names:
        if found := _MARKED.fullmatch(name):
            marks[found[2]].add(found[1])
    if not marks:
        return "raw"
    if any(each & set("ESLUWM") for each in marks.values()):
        return "iobes"
    # Types that are never begun with B are begun with I.
    return "iob1" if any("B" not in each for each in marks.values()) else "iob2"


def _mapped(names: tuple[str, ...], scheme: str) -> Outputs:
    """The sums of outputs for each tag."""
    places: dict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(names):
        found = None if scheme == "raw" else _MARKED.fullmatch(name)
        if name == OUTSIDE or name in _SPECIAL:
            places[OUTSIDE].append(number)
        elif scheme == "raw":
            places[f"I-{name}"].append(number)
        elif found:
            places[f"{'B' if found[1] in _BEGIN else 'I'}-{found[2]}"].append(number)
    mapped = sum(map(len, places.values()))
    types = sorted({tag[2:] for tag in places if tag != OUTSIDE})
    if OUTSIDE not in places or mapped != len(names) or not types:
        msg = (
            f"the network's labels are {', '.join(names[:9])}; expected O and labels such as "
            "B-type and I-type: name them in order with labels (--labels)"
        )
        raise UserError(msg)
    tags = tags_for(types)
    sums = tuple(tuple(places.get(tag, ())) for tag in tags)
    return Outputs(names, TagScheme.of(tags), sums, starts_inside=scheme in ("iob1", "raw"))
