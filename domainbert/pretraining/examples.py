"""Training examples: tokenized documents, cut into pairs of segments, and masked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from datasets import Dataset, Features, List, Value, disable_progress_bars
from datasets.exceptions import DatasetGenerationError
from transformers import DataCollatorForLanguageModeling

from domainbert import __version__
from domainbert.files import write_json
from domainbert.pretraining.corpus import SIDES, CorpusError
from domainbert.streams import chunked
from domainbert.text.runner import pad
from domainbert.training.objective import fingerprint

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from domainbert.pretraining.corpus import Corpus
    from domainbert.pretraining.settings import TrainingPlan

Row = dict[str, Any]
# Share of the examples that get a random length, as in BERT, for short input later.
SHORT = 0.1
# A longer run without the end of a sentence is split in its middle (share of the room there is).
LONG = 0.5
SPECIAL_TOKENS = 3  # [CLS] and two [SEP]
IGNORED = -100  # label of a token that is not predicted
TOGETHER = 16_384  # sentences that are tokenized together
TEXT = "text"  # folder of documents and examples


class ExampleMaker:
    """Cuts documents into pairs of segments, so that no token is lost.

    The first segment ends at the end of a sentence. The second is the text that follows
    or, half of the time and where nothing follows, text of another document from the start of a
    sentence; reading then continues after the first segment, where Devlin et al. truncate.

    Args:
        documents: rows with "tokens", shape (tokens,), and "ends", one past the last token of each
            sentence, shape (sentences,).
        length: most tokens of an example, special tokens included.
        tokenizer: of the encoder.
        seed: of the cuts and pairs.

    Raises:
        CorpusError: a single document.
    """

    def __init__(
        self,
        documents: Dataset,
        *,
        length: int,
        tokenizer: PreTrainedTokenizerBase,
        seed: int,
    ) -> None:
        if len(documents) < 2:
            msg = f"pairs need two documents on each side of the corpus, got {len(documents)}"
            raise CorpusError(msg)
        self._documents, self._room = documents, length - SPECIAL_TOKENS
        self._cls, self._sep = [tokenizer.cls_token_id], [tokenizer.sep_token_id]
        self._seed = (seed, length)

    def __iter__(self) -> Iterator[Row]:
        """The examples.

        Each has "tokens" (ids with special tokens), "length" (their number), "second" (where the
        second segment starts) and "label": 0 if the second segment follows the first, 1 if it is
        of another document.
        """
        self._generator = np.random.default_rng(self._seed)
        for number, document in enumerate(self._documents):
            tokens, ends, start = document["tokens"], document["ends"], 0
            while start < len(tokens):
                stop = min(start + self._target(), len(tokens))
                middle = self._middle(ends, start, stop)
                if middle == stop or self._generator.random() < 0.5:
                    room = self._room if middle == stop else stop - start
                    other = self._elsewhere(number, room - (middle - start))
                    yield self._example(tokens[start:middle], other, label=1)
                    start = middle
                else:
                    yield self._example(
                        tokens[start:middle], tokens[middle:stop], label=0
                    )
                    start = stop

    def _target(self) -> int:
        if self._generator.random() >= SHORT:
            return self._room
        return int(self._generator.integers(2, self._room + 1))

    def _middle(self, ends: np.ndarray, start: int, stop: int) -> int:
        """Where the first segment ends; `stop` if a short run is a single sentence."""
        first, last = np.searchsorted(ends, (start + 1, stop))
        if first < last:
            return int(ends[self._generator.integers(first, last)])
        return (start + stop) // 2 if stop - start > LONG * self._room else stop

    def _elsewhere(self, document: int, room: int) -> np.ndarray:
        """Tokens from the start of a sentence of another document."""
        other = int(self._generator.integers(len(self._documents) - 1))
        row = self._documents[other + (other >= document)]
        sentence = int(self._generator.integers(len(row["ends"])))
        start = int(row["ends"][sentence - 1]) if sentence else 0
        return row["tokens"][start : start + room]

    def _example(self, first: np.ndarray, second: np.ndarray, *, label: int) -> Row:
        parts: list[Any] = [self._cls, first, self._sep, second, self._sep]
        tokens = np.concatenate(parts).astype(np.int64)
        return {
            "tokens": tokens,
            "length": len(tokens),
            "second": len(first) + 2,
            "label": label,
        }


class Masker:
    """Hides tokens for the model to predict, and makes batches, with transformers' collator.

    Every token that is not special is hidden with the same chance, independently. Of these, 80%
    are replaced by [MASK], 10% by a random piece, and the others stay (arXiv 1810.04805).

    Args:
        tokenizer: of the encoder.
        masked: the chance, in (0, 1).
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, *, masked: float = 0.15
    ) -> None:
        self._collator = DataCollatorForLanguageModeling(
            tokenizer, mlm_probability=masked
        )
        self._special = np.isin(np.arange(len(tokenizer)), tokenizer.all_special_ids)
        self._pad = tokenizer.pad_token_id

    def batch(
        self, rows: Mapping[str, Sequence[Any]], *, seed: Sequence[int]
    ) -> dict[str, Any]:
        """A batch for `PretrainingNetwork`: rows of a dataset; the seed alone decides the masks."""
        ids, mask = pad(rows["tokens"], pad_token_id=self._pad)
        state = int(np.random.SeedSequence(seed).generate_state(1)[0])
        self._collator.generator = torch.Generator().manual_seed(state)
        special = torch.from_numpy(self._special[ids])
        shown, labels = self._collator.torch_mask_tokens(
            ids, special_tokens_mask=special
        )
        seconds = torch.tensor(np.asarray(rows["second"]))
        batch = {
            "input_ids": shown,
            "labels": labels,
            "token_type_ids": (torch.arange(ids.shape[1]) >= seconds[:, None]).long(),
            "next_sentence_label": torch.tensor(np.asarray(rows["label"])),
        }
        if mask is not None:
            batch["attention_mask"] = mask
            batch["token_type_ids"] *= mask
        return batch


# --- what is kept in the work folder: each part is made once and reused by every run that fits


class Prepared:
    """What training reads, in a private work folder; what is not there yet is written.

    Attributes:
        documents: side -> its tokenized documents, see `ExampleMaker`.
        examples: side -> its examples.
        counts: of what was read, left out and made.
        name: identifies everything that the examples depend on.

    Raises:
        CorpusError: no text for a side, or no word in it.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        plan: TrainingPlan,
        tokenizer: PreTrainedTokenizerBase,
        work: Path,
    ) -> None:
        folder = private_folder(work / TEXT)
        read = {"version": __version__, "corpus": corpus.facts()}
        read["tokenizer"] = tokenizer.backend_tokenizer.to_str()
        text = fingerprint(read)[:12]
        self.name = fingerprint(
            {"text": text, "seed": plan.seed, "length": plan.length}
        )[:12]
        counts = folder / f"corpus-{text}.json"

        def tokenized() -> Iterator[Row]:
            missing = set(SIDES)
            for row in _tokenized(corpus, tokenizer):
                missing.discard(row["side"])
                yield row
            if missing:
                raise CorpusError(
                    f"the documents on the {max(missing)} side have no word in them"
                )
            write_json(corpus.describe(), counts)

        tokens = List(Value("uint16" if len(tokenizer) <= 2**16 else "int32"))
        features = {
            "tokens": tokens,
            "ends": List(Value("int32")),
            "side": Value("string"),
        }
        documents = _stored(folder, text, tokenized, features)
        sides = np.array(documents["side"][:])
        features = {"tokens": tokens, "length": Value("int32")}
        features |= {"second": Value("int32"), "label": Value("int8")}
        options: dict[str, Any] = {
            "length": plan.length,
            "seed": plan.seed,
            "tokenizer": tokenizer,
        }
        self.documents: dict[str, Dataset] = {}
        self.examples: dict[str, Dataset] = {}
        for side in SIDES:
            rows = documents.select(np.flatnonzero(sides == side), keep_in_memory=True)
            make = partial(ExampleMaker, rows, **options)
            self.documents[side] = rows
            self.examples[side] = _stored(folder, f"{self.name}-{side}", make, features)
        self.counts = json.loads(counts.read_text("utf-8"))
        self.counts["tokens"] = {
            side: sum(int(ends[-1]) for ends in rows["ends"])
            for side, rows in self.documents.items()
        }

    def frequencies(self, side: str, vocabulary: int) -> np.ndarray:
        """How often each token occurs, shape (vocabulary,)."""
        counts = np.zeros(vocabulary, dtype=np.int64)
        for batch in self.documents[side].iter(batch_size=1000):
            counts += np.bincount(
                np.concatenate(list(batch["tokens"])), minlength=vocabulary
            )
        return counts


def private_folder(folder: Path) -> Path:
    """Make a folder that only its owner can read, if it is not there."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _stored(
    folder: Path, name: str, rows: Callable[[], Any], features: Mapping[str, Any]
) -> Dataset:
    """A memory-mapped dataset of that name; made by one process if it is not there."""
    disable_progress_bars()
    failure: BaseException | None = None
    try:
        made = Dataset.from_generator(
            lambda: iter(rows()),
            features=Features(features),
            cache_dir=str(folder),
            fingerprint=name,
        )
    except DatasetGenerationError as error:
        failure = error.__cause__ or error
    if (
        failure is not None
    ):  # what the rows raised; here, so that it does not become its own cause
        raise failure
    return made.with_format("numpy")


def _tokenized(corpus: Corpus, tokenizer: PreTrainedTokenizerBase) -> Iterator[Row]:
    """The documents that have a token, each with the ends of its sentences and its side."""
    for chunk in chunked(
        corpus, size=lambda document: len(document[1]), limit=TOGETHER
    ):
        sentences = [sentence for _, found in chunk for sentence in found]
        encoded = tokenizer(
            sentences,
            add_special_tokens=False,
            split_special_tokens=True,
            verbose=False,
        )
        tokens = iter(encoded["input_ids"])
        for side, found in chunk:
            parts = [part for part in (next(tokens) for _ in found) if part]
            if parts:
                ends = np.cumsum([len(part) for part in parts])
                yield {"tokens": np.concatenate(parts), "ends": ends, "side": side}
