"""From a network's outputs to entities: IOB2 tags of any labels, their best path, and its spans.

Published networks name their outputs in several ways (IOB2, IOB1, IOBES, BILOU, plain types); all
of them are read as IOB2. NumPy only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from biomed.corpora.documents import OUTSIDE
from biomed.corpora.schemes import begins, read_tags
from domainbert.errors import UserError

# Outputs for tokens that are not words, which some trainings count.
_SPECIAL = frozenset(
    {"X", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "CLS", "SEP", "PAD", "<pad>"}
)
_UNNAMED = re.compile(r"LABEL_\d+")
_JUST_BELOW = 1e-4  # in IOB1, continuing an entity goes before starting another one


def tags_for(types: Sequence[str]) -> tuple[str, ...]:
    """All IOB2 tags of these entity types: `O`, then `B-type` and `I-type` of each."""
    return (OUTSIDE, *(f"{mark}-{kind}" for kind in types for mark in "BI"))


class Outputs:
    """How a network's outputs become the tags of `tags_for(types)`; `types` are sorted.

    Types that are never begun with B are begun with I, as in IOB1 and plain types. For the
    spellings of labels see `biomed.corpora.schemes.read_tags`.

    Raises:
        UserError: names that say nothing (`LABEL_0`), or no O.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        columns = _columns_of_tags(self.names)
        types = {tag[2:] for tag in columns if tag != OUTSIDE}
        is_unnamed = all(map(_UNNAMED.fullmatch, names))
        if OUTSIDE not in columns or not types or is_unnamed:
            raise UserError(
                f"the network's labels are {', '.join(names[:9])}; expected O and labels such as "
                'B-type and I-type: name them in its config.json, "id2label": {"0": "O", …}'
            )
        self.types = tuple(sorted(types))
        self.starts_inside = any(f"B-{kind}" not in columns for kind in self.types)
        self._columns = [columns.get(tag, []) for tag in tags_for(self.types)]

    def tags(self, outputs: np.ndarray) -> np.ndarray:
        """Log-probabilities of the tags, shape (words, tags), from those of the outputs.

        Where an entity may start with I, the probability of B is at least just below that of I, so
        the rows may sum to more than 1.
        """
        sums = [
            np.logaddexp.reduce(outputs[:, columns], axis=1, initial=-np.inf)
            for columns in self._columns
        ]
        tags = np.stack(sums, axis=1)
        if self.starts_inside:
            tags[:, 1::2] = np.maximum(tags[:, 1::2], tags[:, 2::2] - _JUST_BELOW)
        return tags


def _columns_of_tags(names: Sequence[str]) -> dict[str, list[int]]:
    """The numbers of the outputs that are summed for each IOB2 tag."""
    tags = read_tags(name for name in names if name not in _SPECIAL)
    columns: dict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(names):
        mark, kind = tags.get(name, (OUTSIDE, ""))
        if mark == OUTSIDE:
            columns[OUTSIDE].append(number)
        elif begins(mark):
            columns[f"B-{kind}"].append(number)
        else:
            columns[f"I-{kind}"].append(number)
    return dict(columns)


def best_path(scores: np.ndarray, *, starts: np.ndarray) -> np.ndarray:
    """The valid IOB2 tag sequence with the largest sum of scores (Viterbi), in linear time.

    `I-x` may follow `B-x` or `I-x` only. A block starts at each word where no I tag scores better
    than its B tag: B may follow any tag, and whatever may follow I may follow B, so an optimal path
    never needs I there. Most blocks are one word; the others are decoded one by one.

    Args:
        scores: log-probability of each tag (of `tags_for`) for each word, shape (words, tags).
        starts: words into which no entity continues, the first among them.

    Returns:
        The number of each word's tag, shape (words,).
    """
    begin = np.arange(1, scores.shape[1], 2)
    inside = begin + 1
    closed = np.asarray((scores[:, inside] <= scores[:, begin]).all(axis=1))
    closed[starts] = True
    closed[:1] = True
    firsts = np.flatnonzero(closed)
    stops = np.append(firsts[1:], len(scores))
    at_start = scores[firsts]
    at_start[:, inside] = -np.inf
    path = np.zeros(len(scores), dtype=np.int64)
    path[firsts] = at_start.argmax(axis=1)
    for block in np.flatnonzero(stops - firsts > 1):
        first, value = firsts[block], at_start[block]
        back = []  # for each tag of a word, the best tag of the word before
        for row in scores[first + 1 : stops[block]]:
            before = np.full(len(value), value.argmax())
            before[inside] = np.where(value[inside] > value[begin], inside, begin)
            back.append(before)
            value = row + value[before]
        tag = int(value.argmax())
        for place in range(len(back) - 1, -1, -1):
            path[first + 1 + place] = tag
            tag = back[place][tag]
        path[first] = tag
    return path


def find_entities(
    log_probabilities: np.ndarray, *, starts: np.ndarray
) -> Iterator[tuple[int, int, int, float]]:
    """The entities of the best path (see `best_path`), in word order.

    Of each the first word, one past the last, the number of its type, and the score (see `Entity`).

    Where no entity can continue, what the network takes for a continuation is a beginning: a
    network without line breaks in its input reads on from one list item into the next.
    """
    scores = log_probabilities.copy()
    begin = np.arange(1, scores.shape[1], 2)
    inside = begin + 1
    both = (log_probabilities[starts][:, tags] for tags in (begin, inside))
    scores[np.ix_(starts, begin)] = np.maximum(*both)
    path = best_path(scores, starts=starts)
    is_inside = (path > 0) & (path % 2 == 0)
    first = np.flatnonzero(path % 2)
    kind = path[first] // 2
    stops = np.append(np.flatnonzero(~is_inside), len(path))
    end = stops[np.searchsorted(stops, first, side="right")]
    taken = scores[np.arange(len(path)), path].astype(np.float64)
    total = np.concatenate(([0.0], np.cumsum(taken)))
    continues = np.zeros((len(path) + 1, len(inside)))
    continues[:-1] = np.exp(log_probabilities[:, inside])
    continues[starts] = 0.0
    continues[:-1][log_probabilities[:, 0] == 0] = (
        0.0  # words that the network does not read
    )
    score = np.exp(total[end] - total[first]) * (1 - continues[end, kind])
    return zip(*(values.tolist() for values in (first, end, kind, score)), strict=True)


# Marks and words that no name begins or ends with.
_LOOSE = frozenset(
    ",.;:!?/\\-\u2010\u2011\u2013\u2014_*&=<>|\"'`\u2018\u2019\u201c\u201d"
)
_LOOSE |= {
    "and",
    "as",
    "at",
    "by",
    "due",
    "for",
    "from",
    "in",
    "is",
    "no",
    "not",
    "of",
    "on",
    "or",
}
_LOOSE |= {"than", "the", "to", "was", "with", "without"}
_OPENING = {")": "(", "]": "[", "}": "{"}
# Shorthand of several words, such as "s/p" (status post), into which no entity continues.
_SHORTHAND = re.compile(
    r"(?<!\w)(?:[scf]/b|s/p|[cap]/w|[cyhrw]/o|c/f|d/[ct]|r/t|2/2|[fw]/u|b/l|w/)(?!\w)",
    re.I,
)
_GREEK = r"[\u03b1-\u03c9]|alpha|beta|gamma|delta"
# What a hyphen attaches to a name: Greek letters and locants before it ("1,25-", "L-"), and Greek
# letters and numbers after it ("COVID-19"); not a score, a range or a date ("pain-7/10").
_LOCANT = rf"1?\d(?:{_GREEK})?'?"
_BEFORE = re.compile(
    rf"(?<![\w.])(?:{_GREEK}|\d{{1,2}}(?:{_GREEK})?(?:,\d{{1,2}}(?:{_GREEK})?)+'?|{_LOCANT}|[DLNORS])-$",
    re.I,
)
_AFTER = re.compile(
    rf"[-\u2010\u2011](?:(?:{_GREEK})\d?|\d+)(?![\w%]|[-/.,:+]\d)", re.I
)
_FARTHEST = 16  # characters that are searched for them


def tidy_span(text: str, words: np.ndarray, first: int, stop: int) -> tuple[int, int]:
    """The words of an entity without loose ends, and with what a hyphen attaches to it.

    `words` are those of the whole text (see `split_words`), of which the entity has `first` to
    `stop` - 1. It ends before shorthand that it continues into, and before a bracket that misses
    its other half. Nothing may be left: first == stop.
    """
    begin, end = words[first, 0], words[stop - 1, 1]
    if (match := _SHORTHAND.search(text, begin, end)) and match.start() > begin:
        stop = int(np.searchsorted(words[:, 0], match.start()))
    while True:
        while first < stop and _is_loose(text, words[stop - 1]):
            stop -= 1
        while first < stop and _is_loose(text, words[first]):
            first += 1
        at = _unmatched(text, words, first, stop)
        if at is None:
            break
        first, stop = (first, at) if at > first else (first + 1, stop)
    if first < stop:
        begin, end = words[first, 0], words[stop - 1, 1]
        if match := _BEFORE.search(text[max(begin - _FARTHEST, 0) : begin]):
            first = int(np.searchsorted(words[:, 0], begin - len(match[0])))
        if match := _AFTER.match(text, end):
            stop = int(np.searchsorted(words[:, 0], match.end()))
    return first, stop


def _is_loose(text: str, word: np.ndarray) -> bool:
    """Whether a word is a mark or a function word; in capitals it may be a name ("AS")."""
    string = text[word[0] : word[1]]
    return string in _LOOSE or (not string.isupper() and string.casefold() in _LOOSE)


def _unmatched(text: str, words: np.ndarray, first: int, stop: int) -> int | None:
    """The first bracket without its other half."""
    opened: list[int] = []
    for at in range(first, stop):
        mark = text[words[at, 0]]
        if mark in _OPENING.values():
            opened.append(at)
        elif mark in _OPENING:
            if not opened or text[words[opened[-1], 0]] != _OPENING[mark]:
                return at
            opened.pop()
    return opened[0] if opened else None
