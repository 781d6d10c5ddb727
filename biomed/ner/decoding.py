"""From a network's outputs to entities: IOB2 tags of any labels, their best path, and its spans.

Published networks name their outputs in several ways (IOB2, IOB1, IOBES, BILOU, plain types); all
of them are read as IOB2. NumPy only.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from biomed.corpora.conll import begins, read_tags
from biomed.corpora.documents import OUTSIDE
from domainbert.errors import UserError
from domainbert.files import read_toml

_DATA = read_toml(__file__, "decoding.toml")
_SPECIAL = frozenset(_DATA["special"].split())
_UNNAMED = re.compile(r"LABEL_\d+")
# In IOB1, continuing an entity is preferred to starting another one.
_JUST_BELOW = 1e-4
# The columns of the B and of the I tags among those of `tags_for`.
_BEGIN = slice(1, None, 2)
_INSIDE = slice(2, None, 2)


def tags_for(types: Sequence[str]) -> tuple[str, ...]:
    """All IOB2 tags of these entity types: `O`, then `B-type` and `I-type` of each."""
    return (OUTSIDE, *(f"{mark}-{label}" for label in types for mark in "BI"))


class Outputs:
    """How a network's outputs become the tags of `tags_for(types)`; `types` are sorted.

    Types that are never begun with B are begun with I, as in IOB1 and plain types. For the
    spellings of labels see `biomed.corpora.conll.read_tags`.

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
        self.starts_inside = any(
            f"B-{label}" not in columns for label in self.types
        )
        self._columns = [columns.get(tag, []) for tag in tags_for(self.types)]

    def tags(self, outputs: np.ndarray) -> np.ndarray:
        """Log-probabilities of the tags, shape (words, tags), from those of the outputs.

        Where an entity may start with I, the probability of B is at least just below that of I, so
        the rows may sum to more than 1.
        """
        sums = [
            np.logaddexp.reduce(
                outputs[:, columns],
                axis=1,
                initial=-np.inf,
            )
            for columns in self._columns
        ]
        tags = np.stack(sums, axis=1)
        if self.starts_inside:
            begin = tags[:, _BEGIN]
            just_below = tags[:, _INSIDE] - _JUST_BELOW
            np.maximum(begin, just_below, out=begin)
        return tags


def _columns_of_tags(names: Sequence[str]) -> dict[str, list[int]]:
    """The numbers of the outputs that are summed for each IOB2 tag."""
    tags = read_tags(name for name in names if name not in _SPECIAL)
    columns = defaultdict(list)
    for number, name in enumerate(names):
        tag, label = tags.get(name, (OUTSIDE, ""))
        if tag != OUTSIDE:
            mark = "B" if begins(tag) else "I"
            tag = f"{mark}-{label}"
        columns[tag].append(number)
    return dict(columns)


def best_path(scores: np.ndarray, *, starts: np.ndarray) -> np.ndarray:
    """The valid IOB2 tag sequence with the largest sum of scores (Viterbi), in linear time.

    `I-x` may follow `B-x` or `I-x` only. A block starts at each word where no I tag scores better
    than its B tag: B may follow any tag, and whatever may follow I may follow B, so an optimal path
    never needs I there. Most blocks are one word; the others are decoded one by one.

    Args:
        scores: log-probability of each tag (of `tags_for`) for each word, shape (words, tags).
        starts: the words into which no entity continues; the first word must be one of them.

    Returns:
        The number of each word's tag, shape (words,).
    """
    is_better_begun = scores[:, _BEGIN] >= scores[:, _INSIDE]
    begins_block = np.asarray(is_better_begun.all(axis=1))
    begins_block[starts] = True
    firsts = np.flatnonzero(begins_block)
    stops = np.append(firsts[1:], len(scores))
    at_start = scores[firsts]
    at_start[:, _INSIDE] = -np.inf
    path = np.zeros(len(scores), dtype=np.int64)
    path[firsts] = at_start.argmax(axis=1)
    for block in np.flatnonzero(stops - firsts > 1):
        words = slice(firsts[block], stops[block])
        later_words = scores[words][1:]
        path[words] = _block_path(at_start[block], later_words)
    return path


def _block_path(value: np.ndarray, rows: np.ndarray) -> list[int]:
    """The best tags of a word with the scores `value`, and of the words after it."""
    tags = np.arange(len(value))
    tags_before = []  # of each word: for each of its tags, the best tag before
    for row in rows:
        before = np.full(len(value), value.argmax())
        is_longer = value[_INSIDE] > value[_BEGIN]
        before[_INSIDE] = np.where(is_longer, tags[_INSIDE], tags[_BEGIN])
        tags_before.append(before)
        value = row + value[before]
    tag = int(value.argmax())
    path = [tag]
    for before in reversed(tags_before):
        tag = int(before[tag])
        path.append(tag)
    return path[::-1]


def find_entities(
    log_probabilities: np.ndarray,
    *,
    starts: np.ndarray,
) -> Iterator[tuple[int, int, int, float]]:
    """The entities of the best path (see `best_path`), in word order.

    Each is given by its first word, one past its last, the number of its type, and its score (see
    `Entity`).

    Where no entity can continue, what the network takes for a continuation is a beginning: a
    network without line breaks in its input reads on from one list item into the next.
    """
    scores = log_probabilities.copy()
    begin = scores[starts, _BEGIN]
    scores[starts, _BEGIN] = np.maximum(begin, scores[starts, _INSIDE])
    path = best_path(scores, starts=starts)
    is_begin = path % 2 == 1
    is_inside = (path > 0) & ~is_begin
    firsts = np.flatnonzero(is_begin)
    label_numbers = path[firsts] // 2
    # An entity ends where the next word is not inside one.
    not_inside = np.append(np.flatnonzero(~is_inside), len(path))
    following = np.searchsorted(not_inside, firsts, side="right")
    ends = not_inside[following]
    path_scores = np.take_along_axis(scores, path[:, None], axis=1)
    sums = np.append(0.0, np.cumsum(path_scores, dtype=np.float64))
    path_probabilities = np.exp(sums[ends] - sums[firsts])
    # After the last word, and where the network reads nothing, nothing continues.
    continues = np.exp(log_probabilities[:, _INSIDE])
    continues = np.pad(continues, ((0, 1), (0, 0))).astype(np.float64)
    is_unread = log_probabilities[:, 0] == 0
    continues[:-1][is_unread] = 0.0
    continues[starts] = 0.0
    probabilities = path_probabilities * (1 - continues[ends, label_numbers])
    columns = (firsts, ends, label_numbers, probabilities)
    return zip(*map(np.ndarray.tolist, columns), strict=True)


_LOOSE = frozenset(_DATA["loose"].split())
_OPENING = {")": "(", "]": "[", "}": "{"}
_SHORTHAND, _BEFORE, _AFTER = (
    re.compile(_DATA[name], re.IGNORECASE | re.VERBOSE)
    for name in ("shorthand", "before", "after")
)
_FARTHEST = 16  # characters before a name that are searched


def tidy_span(
    text: str,
    words: np.ndarray,
    first: int,
    stop: int,
) -> tuple[int, int]:
    """The words of an entity without loose ends, and with what a hyphen attaches to it.

    `words` are those of the whole text (see `split_words`), of which the entity has `first` to
    `stop` - 1. It ends before shorthand that it continues into, and before a bracket that misses
    its other half. Nothing may be left: first == stop.
    """
    begin = words[first, 0]
    shorthand = _SHORTHAND.search(text, begin, words[stop - 1, 1])
    if shorthand and shorthand.start() > begin:
        stop = int(np.searchsorted(words[:, 0], shorthand.start()))
    while first < stop:
        if _is_loose(text, words[stop - 1]):
            stop -= 1
        elif _is_loose(text, words[first]):
            first += 1
        else:
            bracket = _unmatched(text, words, first, stop)
            if bracket is None:
                return _with_hyphens(text, words, first, stop)
            if bracket > first:
                stop = bracket
            else:
                first += 1
    return first, stop


def _with_hyphens(
    text: str,
    words: np.ndarray,
    first: int,
    stop: int,
) -> tuple[int, int]:
    """The words of an entity with what a hyphen attaches to them."""
    begin = words[first, 0]
    end = words[stop - 1, 1]
    starts = words[:, 0]
    text_before = text[max(begin - _FARTHEST, 0) : begin]
    if before := _BEFORE.search(text_before):
        attached_start = begin - len(before[0])
        first = int(np.searchsorted(starts, attached_start))
    if after := _AFTER.match(text, end):
        stop = int(np.searchsorted(starts, after.end()))
    return first, stop


def _is_loose(text: str, word: np.ndarray) -> bool:
    """Whether a word is a mark or a function word; in capitals it may be a name ("AS")."""
    string = text[word[0] : word[1]]
    if not string.isupper():
        string = string.casefold()
    return string in _LOOSE


def _unmatched(
    text: str,
    words: np.ndarray,
    first: int,
    stop: int,
) -> int | None:
    """The first bracket without its other half."""
    opened = []
    for index in range(first, stop):
        mark = text[words[index, 0]]
        if mark in _OPENING.values():
            opened.append(index)
        elif mark in _OPENING:
            if not opened or text[words[opened[-1], 0]] != _OPENING[mark]:
                return index
            opened.pop()
    return next(iter(opened), None)
