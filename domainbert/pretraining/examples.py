"""Training examples: tokenized documents, cut into pairs of segments and masked."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset, Features, List, Value, disable_progress_bars
from datasets.exceptions import DatasetGenerationError
from transformers import (
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerBase,
)

from domainbert import __version__
from domainbert.files import write_json
from domainbert.pretraining.corpus import SIDES, TextCorpus, TextCorpusError
from domainbert.pretraining.settings import TrainingPlan
from domainbert.streams import chunked
from domainbert.text.runner import pad
from domainbert.training.objective import fingerprint

Row = dict[str, Any]
# Share of the examples that get a random length, as in BERT, for short input later.
SHORT = 0.1
# A longer sentence, as a share of the room in an example, is split in its middle.
LONG = 0.5
SPECIAL_TOKENS = 3  # [CLS] and two [SEP]
IGNORED = -100  # label of a token that is not predicted
TOGETHER = 16_384  # sentences that are tokenized together
TEXT = "text"  # folder of documents and examples


class SegmentPairMaker:
    """Cuts the documents of one side into pairs of segments, so that no token is lost.

    The sides of a corpus are those trained on and those held out.

    The first segment ends with a sentence. The second is the text that follows or, half of the
    time and where nothing follows, text of another document from the start of a sentence. In
    that case reading continues after the first segment, where Devlin et al. truncate.

    Args:
        documents: rows with "tokens", shape (tokens,), and "ends", one past the last token of each
            sentence, shape (sentences,).
        length: most tokens of an example, special tokens included.
        tokenizer: the tokenizer of the encoder.
        seed: the seed of the cuts and pairs.

    Raises:
        TextCorpusError: a single document.
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
            raise TextCorpusError(
                f"pairs need two documents on each side of the corpus, got {len(documents)}"
            )
        self._documents = documents
        self._capacity = length - SPECIAL_TOKENS  # of both segments together
        self._cls = [tokenizer.cls_token_id]
        self._sep = [tokenizer.sep_token_id]
        # With the length in the seed, runs with short and with long examples cut differently.
        self._seed = (seed, length)

    def __iter__(self) -> Iterator[Row]:
        """The examples.

        Each has "tokens" (ids with special tokens), "length" (their number), "second" (where the
        second segment starts) and "label": 0 if the second segment follows the first, 1 if it is
        of another document.
        """
        self._generator = np.random.default_rng(self._seed)
        for number, document in enumerate(self._documents):
            tokens = document["tokens"]
            start = 0
            while start < len(tokens):
                stop = min(start + self._target(), len(tokens))
                middle = self._middle(document["ends"], start, stop)
                first = tokens[start:middle]
                if middle < stop and self._generator.random() >= 0.5:
                    yield self._example(first, tokens[middle:stop], label=0)
                    start = stop
                    continue
                length = stop - start
                if middle == stop:
                    length = self._capacity
                second = self._elsewhere(number, length - len(first))
                yield self._example(first, second, label=1)
                start = middle

    def _target(self) -> int:
        """How many tokens the next example may have."""
        if self._generator.random() >= SHORT:
            return self._capacity
        return int(self._generator.integers(2, self._capacity + 1))

    def _middle(
        self,
        ends: np.ndarray,
        start: int,
        stop: int,
    ) -> int:
        """The end of the first segment; `stop` if a short run is a single sentence."""
        first, last = np.searchsorted(ends, (start + 1, stop))
        if first < last:
            return int(ends[self._generator.integers(first, last)])
        if stop - start > LONG * self._capacity:
            return (start + stop) // 2
        return stop

    def _elsewhere(self, document: int, room: int) -> np.ndarray:
        """Tokens from the start of a sentence of another document."""
        other = int(self._generator.integers(len(self._documents) - 1))
        row = self._documents[other + (other >= document)]
        sentence = int(self._generator.integers(len(row["ends"])))
        starts = [0, *row["ends"]]
        start = int(starts[sentence])
        return row["tokens"][start : start + room]

    def _example(
        self,
        first: np.ndarray,
        second: np.ndarray,
        *,
        label: int,
    ) -> Row:
        """The example `[CLS] first [SEP] second [SEP]`."""
        tokens = np.concatenate(
            [self._cls, first, self._sep, second, self._sep],
            dtype=np.int64,
        )
        return {
            "tokens": tokens,
            "length": len(tokens),
            "second": len(first) + 2,
            "label": label,
        }


class Masker:
    """Makes batches in which tokens are hidden for the model to predict.

    Every token that is not special is hidden with the same chance, independently. Of the hidden
    tokens, 80% are replaced by [MASK], 10% by a random piece, and the others stay (arXiv
    1810.04805). Transformers' collator does it.

    Args:
        tokenizer: the tokenizer of the encoder.
        masked: the chance, in (0, 1).
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        masked: float = 0.15,
    ) -> None:
        self._collator = DataCollatorForLanguageModeling(
            tokenizer,
            mlm_probability=masked,
        )
        self._special = np.isin(
            np.arange(len(tokenizer)), tokenizer.all_special_ids
        )
        self._pad = tokenizer.pad_token_id

    def batch(
        self,
        rows: Mapping[str, Sequence[Any]],
        *,
        seed: Sequence[int],
    ) -> dict[str, torch.Tensor]:
        """A batch for `PretrainingNetwork`: rows of a dataset; the seed alone decides the masks."""
        ids, mask = pad(rows["tokens"], pad_token_id=self._pad)
        state = int(np.random.SeedSequence(seed).generate_state(1)[0])
        self._collator.generator = torch.Generator().manual_seed(state)
        special = torch.from_numpy(self._special[ids])
        shown, labels = self._collator.torch_mask_tokens(
            ids,
            special_tokens_mask=special,
        )
        seconds = torch.tensor(np.asarray(rows["second"]))
        batch = {
            "input_ids": shown,
            "labels": labels,
            "token_type_ids": (
                torch.arange(ids.shape[1]) >= seconds[:, None]
            ).long(),
            "next_sentence_label": torch.tensor(np.asarray(rows["label"])),
        }
        if mask is not None:
            batch["attention_mask"] = mask
            batch["token_type_ids"] *= mask
        return batch


# --- the work folder: each part is written once and reused by every run with the same settings


class Prepared:
    """The training data in a private work folder; missing parts are written.

    Attributes:
        documents: side -> its tokenized documents, see `SegmentPairMaker`.
        examples: side -> its examples.
        counts: numbers of documents read and left out, and of tokens.
        name: identifies everything that the examples depend on.

    Raises:
        TextCorpusError: no text for a side, or no word in it.
    """

    def __init__(
        self,
        corpus: TextCorpus,
        *,
        plan: TrainingPlan,
        tokenizer: PreTrainedTokenizerBase,
        work: Path,
    ) -> None:
        folder = private_folder(work / TEXT)
        text_facts = {
            "version": __version__,
            "corpus": corpus.facts(),
            "tokenizer": tokenizer.backend_tokenizer.to_str(),
        }
        text_name = fingerprint(text_facts)[:12]
        example_facts = {
            "text": text_name,
            "seed": plan.seed,
            "length": plan.length,
        }
        self.name = fingerprint(example_facts)[:12]
        counts_file = folder / f"corpus-{text_name}.json"
        token_type = "uint16" if len(tokenizer) <= 2**16 else "int32"
        tokens = List(Value(token_type))
        tokenize_sides = partial(
            _tokenized_sides, corpus, tokenizer, counts_file
        )
        documents = _stored(
            folder,
            text_name,
            tokenize_sides,
            {
                "tokens": tokens,
                "ends": List(Value("int32")),
                "side": Value("string"),
            },
        )
        self.counts = json.loads(counts_file.read_text("utf-8"))
        self.counts["tokens"] = {}
        self.documents: dict[str, Dataset] = {}
        self.examples: dict[str, Dataset] = {}
        sides = np.array(documents["side"][:])
        for side in SIDES:
            rows = documents.select(
                np.flatnonzero(sides == side), keep_in_memory=True
            )
            make_examples = partial(
                SegmentPairMaker,
                rows,
                length=plan.length,
                tokenizer=tokenizer,
                seed=plan.seed,
            )
            self.documents[side] = rows
            self.examples[side] = _stored(
                folder,
                f"{self.name}-{side}",
                make_examples,
                {
                    "tokens": tokens,
                    "length": Value("int32"),
                    "second": Value("int32"),
                    "label": Value("int8"),
                },
            )
            self.counts["tokens"][side] = sum(
                int(ends[-1]) for ends in rows["ends"]
            )

    def frequencies(self, side: str, vocabulary: int) -> np.ndarray:
        """How often each token occurs, shape (vocabulary,)."""
        counts = np.zeros(vocabulary, dtype=np.int64)
        for batch in self.documents[side].iter(batch_size=1000):
            tokens = np.concatenate(list(batch["tokens"]))
            counts += np.bincount(tokens, minlength=vocabulary)
        return counts


def private_folder(folder: Path) -> Path:
    """Make a folder that only its owner can read, if it is not there."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _stored(
    folder: Path,
    name: str,
    rows: Callable[[], Iterable[Row]],
    features: Mapping[str, object],
) -> Dataset:
    """A memory-mapped dataset of that name; written by one process if it is not there."""
    disable_progress_bars()
    failure: BaseException | None = None
    try:
        dataset = Dataset.from_generator(
            lambda: iter(rows()),
            features=Features(features),
            cache_dir=str(folder),
            fingerprint=name,
        )
    except DatasetGenerationError as error:
        failure = error.__cause__ or error
    # Raised outside of the handler, where an exception would become its own cause.
    if failure is not None:
        raise failure
    return dataset.with_format("numpy")


def _tokenized_sides(
    corpus: TextCorpus,
    tokenizer: PreTrainedTokenizerBase,
    counts_file: Path,
) -> Iterator[Row]:
    """The tokenized documents of both sides; the counts of the corpus are written at the end."""
    missing = set(SIDES)
    for row in _tokenized(corpus, tokenizer):
        missing.discard(row["side"])
        yield row
    if missing:
        raise TextCorpusError(
            f"the documents on the {max(missing)} side have no word in them"
        )
    write_json(corpus.describe(), counts_file)


def _tokenized(
    corpus: TextCorpus, tokenizer: PreTrainedTokenizerBase
) -> Iterator[Row]:
    """The documents that have a token, each with the ends of its sentences and its side."""
    chunks = chunked(
        corpus,
        size=lambda document: len(document[1]),
        limit=TOGETHER,
    )
    for chunk in chunks:
        texts = [sentence for _, sentences in chunk for sentence in sentences]
        encoded = tokenizer(
            texts,
            add_special_tokens=False,
            split_special_tokens=True,
            verbose=False,
        )
        token_lists = iter(encoded["input_ids"])
        for side, sentences in chunk:
            document = list(filter(None, islice(token_lists, len(sentences))))
            if document:
                ends = np.cumsum([len(tokens) for tokens in document])
                yield {
                    "tokens": np.concatenate(document),
                    "ends": ends,
                    "side": side,
                }
