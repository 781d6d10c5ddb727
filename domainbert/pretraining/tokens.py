"""Text as tokens: sentences, a WordPiece vocabulary learned from text, and token files on disk."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from domainbert.errors import UserError
from domainbert.inference import chunked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

# --- sentences

# Words that end in a full stop without ending a sentence.
_ABBREVIATIONS = frozenset(
    [
        *("dr", "drs", "mr", "mrs", "ms", "prof", "st", "dept", "vs", "ca", "cf", "eq", "al"),
        *("fig", "figs", "ref", "refs", "e.g", "i.e", "approx"),
    ]
)
_ITEM = re.compile(r"(?:[-*#+•·▪◦–—]|\(?\d{1,3}[.)]|\(?[A-Za-z][.)])(?:\s|$)")
_HEADING = re.compile(r"[A-Z][\w /&,'()-]{0,40}:(?:\s|$)")
# Tokenized text separates the full stop from its word, and also the point of 0 . 05.
_POINT = r"(?<= )\. \d"
# A run of marks is tried once, at its start, and never given back: linear in the text.
_END = re.compile(rf"""(?<![.!?])(?!{_POINT})[.!?]++["'”’)\]]*+(?= ["'“‘(\[]*+[A-Z0-9])""")
# Text is wrapped at a width in this range, except for a few long lines.
_WIDTHS = range(40, 121)
_FEW = 0.1
# A full line may be this much shorter than the widest: marks that hide names were inserted after
# the lines were wrapped.
_SLACK = 0.9


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences with single spaces between words, in linear time.

    A line break ends a sentence unless the line was wrapped: the line is about as long as the
    longest lines of the text, or it is long and the next line starts in lower case. Blank lines,
    list items and headings always start a new sentence. Within a line, a full stop ends a
    sentence if a capital or a digit follows and the word before is not a title, an initial or a
    common abbreviation.

    Every word of the text is in exactly one sentence, in order; no sentence is empty.
    """
    return [part for block in _unwrapped(text) for part in _parts(" ".join(block.split()))]


def _unwrapped(text: str) -> list[str]:
    """Paragraphs, list items and headings with their wrapped lines joined; none is blank."""
    lines = [line.strip() for line in text.splitlines()]
    width = _wrap_width([len(line) for line in lines if line])
    blocks: list[list[str]] = []
    before = ""
    for line in lines:
        if before and line and _continues(before, line, width=width):
            blocks[-1].append(line)
        elif line:
            blocks.append([line])
        before = line
    return [" ".join(block) for block in blocks]


def _wrap_width(lengths: list[int]) -> int:
    """The width that several lines nearly reach, or 0 if lines were not wrapped."""
    within = sorted(length for length in lengths if length < _WIDTHS.stop)
    if len(lengths) - len(within) > _FEW * len(lengths):
        return 0
    widths = (high for low, high in pairwise(within) if high in _WIDTHS and low > _SLACK * high)
    return max(widths, default=0)


def _continues(line: str, following: str, *, width: int) -> bool:
    if line.endswith(":") or _ITEM.match(following) or _HEADING.match(following):
        return False
    word = following.split(maxsplit=1)[0]
    is_full = len(line) <= width < (len(line) + 1 + len(word)) / _SLACK
    flows = len(line) >= _WIDTHS.start and line[-1] not in ".!?;" and following[0].islower()
    return is_full or flows


def _parts(block: str) -> Iterator[str]:
    """The sentences of a block whose words are separated by single spaces."""
    start = 0
    for end in _END.finditer(block):
        if _is_full_stop(block, start, end.start()):
            yield block[start : end.end()]
            start = end.end() + 1
    yield block[start:]


def _is_full_stop(block: str, start: int, stop: int) -> bool:
    """Whether a full stop at `stop` ends the sentence that starts at `start`."""
    stop -= stop > start and block[stop - 1] == " "
    space = block.rfind(" ", start, stop)
    last = block[max(space + 1, start) : stop]
    plain = last.lower().strip("(['\"")
    is_number_of_item = space < 0 and len(last) <= 3
    is_initial = len(plain) == 1 and last.isupper()
    return bool(last) and not (is_number_of_item or is_initial or plain in _ABBREVIATIONS)


# --- vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"
# Characters with a piece of their own: at most so many and this share of all pieces.
ALPHABET, ALPHABET_SHARE = 1000, 1 / 3
# A longer piece must occur this often.
FREQUENCY = 2
# The library counts words itself: each is handed over as often as it occurs, so many at a time.
REPEATED = 10_000


class _Common:
    """Counts of items, and which of them occur with enough different patients."""

    def __init__(self, least: int) -> None:
        self._least, self.counts, self.kept = least, Counter[str](), set[str]()
        self._patients: dict[str, tuple[str, ...]] = {}

    def add(self, counts: Mapping[str, int], patient: str) -> None:
        self.counts.update(counts)
        for item in counts:
            if item in self.kept or patient in (known := self._patients.get(item, ())):
                continue
            if len(known) + 1 >= self._least:
                self.kept.add(item)
                self._patients.pop(item, None)
            else:
                self._patients[item] = (*known, patient)


def train_vocabulary(
    documents: Iterable[tuple[str, Iterable[str]]],
    *,
    size: int,
    lower_case: bool,
    positions: int = 512,
    min_patients: int = 10,
) -> PreTrainedTokenizerBase:
    """Learn a WordPiece vocabulary; the same documents give the same pieces.

    Args:
        documents: the patient of each document and its sentences. A document without a patient
            counts as a patient of its own: give it a name of its own.
        size: pieces at most, special tokens included; a small corpus gives fewer.
        lower_case: whether words are lower-cased and lose their accents.
        positions: what the encoder can read, for the tokenizer's `model_max_length`.
        min_patients: a word that occurs with fewer different patients is left out, and so is a
            character outside ASCII: a name must not become a piece.

    Returns:
        A BERT tokenizer.

    Raises:
        UserError: no text, or no word that occurs with enough patients.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import BertTokenizer

    # An empty tokenizer supplies BERT's own normalization and word boundaries.
    plain = BertTokenizer(do_lower_case=lower_case).backend_tokenizer
    words, letters = _Common(min_patients), _Common(min_patients)
    for patient, sentences in documents:
        here: Counter[str] = Counter()
        for sentence in sentences:
            normal = plain.normalizer.normalize_str(sentence)
            here.update(word for word, _ in plain.pre_tokenizer.pre_tokenize_str(normal))
        words.add(here, patient)
        alphabet: Counter[str] = Counter()
        for word, count in here.items():
            alphabet.update(dict.fromkeys(word, count))
        letters.add(alphabet, patient)
    if not words.counts:
        msg = "there is no text to learn a vocabulary from"
        raise UserError(msg)
    if not words.kept:
        msg = (
            f"no word occurs with {min_patients} different patients (or documents without a "
            "patient); train on more text, or lower min_patients under [scratch]"
        )
        raise UserError(msg)
    common = [letter for letter in letters.counts if letter.isascii() or letter in letters.kept]
    # The library numbers characters at random and breaks ties by their numbers, so they are sorted.
    ranked = sorted(sorted(common), key=letters.counts.__getitem__, reverse=True)
    ranked = ranked[: min(ALPHABET, int(size * ALPHABET_SHARE))]
    learner = Tokenizer(models.WordPiece(unk_token=SPECIAL[1]))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(
        (
            " ".join(repeat(word, min(words.counts[word] - done, REPEATED)))
            for word in sorted(words.kept)
            for done in range(0, words.counts[word], REPEATED)
        ),
        trainers.WordPieceTrainer(
            vocab_size=size,
            min_frequency=FREQUENCY,
            limit_alphabet=0,
            special_tokens=[*SPECIAL, *ranked, *(CONTINUES + letter for letter in ranked)],
            continuing_subword_prefix=CONTINUES,
            show_progress=False,
        ),
    )
    in_order = dict(sorted(learner.get_vocab().items(), key=lambda item: item[1]))
    return BertTokenizer(vocab=in_order, do_lower_case=lower_case, model_max_length=positions)


# --- token files

# About this many tokens are held in memory while a shard is written.
SHARD_TOKENS = 4_000_000
TOKENS, ENDS = "tokens", "ends"
# Sentences that are tokenized together.
TOGETHER = 4096


def token_type(vocabulary: int) -> pa.DataType:
    """The smallest integer type that can number a vocabulary."""
    return pa.uint16() if vocabulary <= np.iinfo(np.uint16).max + 1 else pa.int32()


class ShardWriter:
    """Writes rows, one column of which is `TOKENS`, to Arrow files `NAME-00000.arrow` and on."""

    def __init__(self, folder: Path, *, name: str, columns: Mapping[str, pa.DataType]) -> None:
        self._folder, self._name = folder, name
        self._schema = pa.schema(list(columns.items()))
        self._shards = 0
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[str, list[Any]] = {name: [] for name in self._schema.names}
        self._tokens = 0

    def append(self, **values: Any) -> None:
        """Add a row."""
        for name, value in values.items():
            self._rows[name].append(value)
        self._tokens += len(values[TOKENS])
        if self._tokens >= SHARD_TOKENS:
            self.flush()

    def flush(self) -> None:
        """Write a shard of the rows so far; call it after the last row."""
        if not self._rows[TOKENS]:
            return
        path = self._folder / f"{self._name}-{self._shards:05d}.arrow"
        batch = pa.record_batch(self._rows, schema=self._schema)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, self._schema) as file:
            file.write_batch(batch)
        self._shards += 1
        self._clear()


class Shards:
    """The rows of the shards of one side, in writing order, memory-mapped."""

    def __init__(self, folder: Path, *, side: str) -> None:
        files = sorted(folder.glob(f"{side}-*.arrow"))
        self._batches = [pa.ipc.open_file(pa.memory_map(str(f))).get_batch(0) for f in files]
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        self._lists: dict[tuple[int, str], tuple[np.ndarray, np.ndarray]] = {}

    def __len__(self) -> int:
        """Number of rows."""
        return int(self._starts[-1])

    def column(self, name: str) -> np.ndarray:
        """All values of a numeric column, shape (rows,)."""
        return _joined(batch.column(name).to_numpy() for batch in self._batches)

    def list_lengths(self, name: str) -> np.ndarray:
        """The length of each list of a column, shape (rows,)."""
        return _joined(np.diff(self._list(n, name)[0]) for n in range(len(self._batches)))

    def items(self, row: int, name: str) -> np.ndarray:
        """The list of a row, shape (items,); a view into the file."""
        shard = int(np.searchsorted(self._starts, row, side="right")) - 1
        offsets, values = self._list(shard, name)
        place = row - self._starts[shard]
        return values[offsets[place] : offsets[place + 1]]

    def _list(self, shard: int, name: str) -> tuple[np.ndarray, np.ndarray]:
        if (shard, name) not in self._lists:
            column = self._batches[shard].column(name)
            self._lists[shard, name] = (column.offsets.to_numpy(), column.values.to_numpy())
        return self._lists[shard, name]


def _joined(parts: Iterator[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def write_documents(
    documents: Iterable[tuple[str, list[str]]],
    folder: Path,
    *,
    tokenizer: PreTrainedTokenizerBase,
    sides: Iterable[str],
) -> None:
    """Tokenize documents, each given by its side and its sentences, into shards of each side."""
    columns = {TOKENS: pa.list_(token_type(len(tokenizer))), ENDS: pa.list_(pa.int32())}
    writers = {side: ShardWriter(folder, name=side, columns=columns) for side in sides}
    for chunk in chunked(documents, size=lambda found: len(found[1]), limit=TOGETHER):
        tokens = iter(_tokenized([s for _, found in chunk for s in found], tokenizer))
        for side, found in chunk:
            parts = [part for part in (next(tokens) for _ in found) if part]
            if parts:
                joined = [token for part in parts for token in part]
                writers[side].append(tokens=joined, ends=np.cumsum([*map(len, parts)]))
    for writer in writers.values():
        writer.flush()


def _tokenized(sentences: list[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    encoded = tokenizer(
        sentences,
        add_special_tokens=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        split_special_tokens=True,
        truncation=False,
        verbose=False,
    )
    return list(encoded["input_ids"])


class Documents(Shards):
    """The tokenized documents of one side of a corpus."""

    def tokens(self, document: int) -> np.ndarray:
        """All tokens of a document, shape (tokens,)."""
        return self.items(document, TOKENS)

    def ends(self, document: int) -> np.ndarray:
        """One past the last token of each sentence, shape (sentences,)."""
        return self.items(document, ENDS)

    def frequencies(self, vocabulary: int) -> np.ndarray:
        """How often each token occurs, shape (vocabulary,)."""
        shards = (self._list(shard, TOKENS)[1] for shard in range(len(self._batches)))
        return np.sum([np.bincount(values, minlength=vocabulary) for values in shards], axis=0)
