"""Text as tokens: sentences, a WordPiece vocabulary learned from text, and token files on disk."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import ExitStack
from itertools import accumulate, chain, pairwise, repeat
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
    "dr drs mr mrs ms prof st dept vs ca cf eq al fig figs ref refs e.g i.e approx".split(" ")  # noqa: SIM905
)
_ITEM = re.compile(r"(?:[-*#+•·▪◦–—]|\(?\d{1,3}[.)]|\(?[A-Za-z][.)])(?:\s|$)")
_WORD = re.compile(r"\S+")
_HEADING = re.compile(r"[A-Z][\w /&,'()-]{0,40}:(?:\s|$)")
# Tokenized text separates the full stop from its word, and also the point of 0 . 05.
_POINT = r"(?<= )\. \d"
# A run of marks is tried once, at its start, and never given back: linear in the text.
_END = re.compile(rf"""(?<![.!?])(?!{_POINT})[.!?]++["'”’)\]]*+(?= ["'“‘(\[]*+[A-Z0-9])""")
# Text is wrapped at a width in this range, except for a few long lines.
_WIDTHS = range(40, 121)
_FEW = 0.1
# A full line may be this much shorter than the widest: names were masked after the wrapping.
_SLACK = 0.9


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences with single spaces between words, in linear time.

    A line break ends a sentence unless the line was wrapped: it is about as long as the longest
    lines, or it is long and the next line starts in lower case. Blank lines, list items and
    headings start a sentence. Within a line, a full stop ends one if a capital or a digit follows
    and the word before is no title, initial or abbreviation. Every word is in exactly one sentence.
    """
    return [part for block in _unwrapped(text) for part in _parts(" ".join(block.split()))]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """The sentences of `split_sentences` as (start, end) in the text, in order, not overlapping."""
    words = [word.span() for word in _WORD.finditer(text)]
    lengths = [len(sentence.split()) for sentence in split_sentences(text)]
    ends = [*accumulate(lengths)]
    return [
        (words[end - length][0], words[end - 1][1])
        for end, length in zip(ends, lengths, strict=True)
        if length
    ]


def _unwrapped(text: str) -> list[str]:
    """Paragraphs, list items and headings, their wrapped lines joined."""
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
# The library counts words itself: each is passed as often as it occurs, so many at a time.
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
    """Learn a WordPiece vocabulary for BERT; the same documents give the same pieces.

    Args:
        documents: the patient of each document, or a name of its own, and its sentences.
        size: most pieces, special tokens included.
        lower_case: whether words are lower-cased and lose their accents.
        positions: longest input of the encoder in tokens.
        min_patients: words, and characters outside ASCII, of fewer patients are left out, so that
            a name does not become a piece.

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

TOKENS, ENDS = "tokens", "ends"
# Sentences that are tokenized and written together.
TOGETHER = 16_384


def token_list(vocabulary: int) -> pa.DataType:
    """Lists of the smallest integers that can number a vocabulary."""
    return pa.list_(pa.uint16() if vocabulary <= np.iinfo(np.uint16).max + 1 else pa.int32())


class TokenFile:
    """The rows of an Arrow file, one for each side of a corpus; memory-mapped."""

    def __init__(self, folder: Path, *, side: str) -> None:
        mapped = pa.memory_map(str(folder / f"{side}.arrow"))
        self._table = pa.ipc.open_file(mapped).read_all()

    def __len__(self) -> int:
        """Number of rows."""
        return self._table.num_rows

    def items(self, row: int, name: str) -> np.ndarray:
        """The list of a row, shape (items,); a view into the file."""
        return self._table[name][row].values.to_numpy()


def write_documents(
    documents: Iterable[tuple[str, list[str]]],
    folder: Path,
    *,
    tokenizer: PreTrainedTokenizerBase,
    sides: Iterable[str],
) -> None:
    """Tokenize documents, each given by its side and its sentences, into a file for each side."""
    schema = pa.schema({TOKENS: token_list(len(tokenizer)), ENDS: pa.list_(pa.int32())})
    with ExitStack() as stack:
        files = {
            side: stack.enter_context(pa.ipc.new_file(str(folder / f"{side}.arrow"), schema))
            for side in sides
        }
        for chunk in chunked(documents, size=lambda found: len(found[1]), limit=TOGETHER):
            sentences = [sentence for _, found in chunk for sentence in found]
            encoded = tokenizer(
                sentences, add_special_tokens=False, split_special_tokens=True, verbose=False
            )
            tokens = iter(encoded["input_ids"])
            rows: dict[str, list[dict[str, Any]]] = {side: [] for side in files}
            for side, found in chunk:
                parts = [part for part in (next(tokens) for _ in found) if part]
                if parts:
                    ends = np.cumsum([len(part) for part in parts])
                    rows[side].append({TOKENS: list(chain.from_iterable(parts)), ENDS: ends})
            for side, file in files.items():
                file.write_batch(pa.RecordBatch.from_pylist(rows[side], schema=schema))


class Documents(TokenFile):
    """The tokenized documents of one side of a corpus."""

    def tokens(self, document: int) -> np.ndarray:
        """All tokens of a document, shape (tokens,)."""
        return self.items(document, TOKENS)

    def ends(self, document: int) -> np.ndarray:
        """One past the last token of each sentence, shape (sentences,)."""
        return self.items(document, ENDS)

    def frequencies(self, vocabulary: int) -> np.ndarray:
        """How often each token occurs, shape (vocabulary,)."""
        chunks = (chunk.flatten().to_numpy() for chunk in self._table[TOKENS].chunks)
        counts = (np.bincount(chunk, minlength=vocabulary) for chunk in chunks)
        return sum(counts, start=np.zeros(vocabulary, dtype=np.int64))
