"""Speed of `EntityTagger.tag_many` compared with Hugging Face's token-classification pipeline.

    python benchmarks/ner.py --out ner.json
    python benchmarks/ner.py --quick              # does it run?

Takes 10 minutes on two cores. Both find entities with the same weights, in fp32 on the CPU, from
raw texts to exact spans, in turn:

- ours: `tag_many`;
- as called: the pipeline as in its documentation, with `aggregation_strategy="first"`, one text at
  a time; full articles with `stride`, because it would otherwise read only their first 512 tokens;
- at its best: the same with its fastest batch size.

The texts are sentences (NCBI-disease, test), abstracts (PubMedQA) and full articles (COVID-QA).

How to read the table: "× as called" and "× at its best" are how many times as fast ours is, within
a round, the median with the smallest and the largest; "its batch" is the pipeline's fastest batch
size. "identical" counts the texts of one window with the same word pieces for which both find the
same entities. The others differ because the most likely tags of the words are not valid IOB2, which
the pipeline repairs in its own way, or ours ends an entity at a list item ("invalid tags"), or by
our rules on what the network finds: entities with a low score or loose ends, and abbreviations that
the text defines ("our rules"). Entities without a letter are left out of both. The exit status is 1
if a text differs for another reason.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from measuring import fastest_size, say, take_turns
from reporting import (
    add_data_option,
    options,
    rates,
    report_comparisons,
    spread,
    times,
)
from transformers import AutoModelForTokenClassification

from biomed import EntityTagger
from biomed.corpora import read_gold
from biomed.corpora.words import split_words, starts_after_breaks
from biomed.ner.decoding import best_path
from biomed.ner.pieces import WordTokenizer
from domainbert.encoders.loading import find_encoder, load_tokenizer
from domainbert.progress import counted

LIMIT = 512  # tokens of a window
STRIDE = 64  # overlap of the pipeline's windows, as ours
ONE_BY_ONE = 0
BATCHES = (2, 4, 8, 16, 32, 64)
OURS = "ours"
AS_CALLED = "as called"
AT_ITS_BEST = "at its best"
# Texts that choose the batch size.
SAMPLE = {
    "sentences": 128,
    "abstracts": 48,
    "articles": 3,
}

Spans = list[tuple[int, int, str]]


@dataclass(frozen=True)
class Workload:
    """Raw texts of one kind."""

    name: str
    texts: list[str] = field(repr=False)


@dataclass(frozen=True)
class Comparison:
    """The results of one workload; lists have one value per round.

    Attributes:
        workload: its name.
        texts: number of texts.
        words: number of words.
        batch: the pipeline's fastest batch size.
        seen_whole: texts that the pipeline reads in one window.
        identical: of those, texts with identical entities.
        broken: of the others, texts whose most likely tags are not valid IOB2.
        ruled: of the others, texts in which the network finds what the pipeline does.
        seconds: of "ours", "as called" and "at its best".
    """

    workload: str
    texts: int
    words: int
    batch: int
    seen_whole: int
    identical: int
    broken: int
    ruled: int
    seconds: dict[str, list[float]]

    @property
    def unexplained(self) -> int:
        """Texts with different entities for no known reason."""
        return self.seen_whole - self.identical - self.broken - self.ruled

    def row(self) -> dict[str, str]:
        """A row of the table."""
        ours = self.seconds[OURS]
        length = self.words / self.texts
        return {
            "texts": f"{self.texts} {self.workload} of {length:.0f} words",
            "texts/s": spread(rates(self.texts, ours), ".3g"),
            "words/s": spread(rates(self.words, ours), ".0f"),
            "× as called": times(self.seconds[AS_CALLED], ours),
            "× at its best": times(self.seconds[AT_ITS_BEST], ours),
            "its batch": str(self.batch),
            "identical": f"{self.identical} of {self.seen_whole} seen whole",
            "invalid tags": str(self.broken),
            "our rules": str(self.ruled),
        }

    def measured(self) -> dict[str, Any]:
        """All numbers, for the JSON file."""
        return asdict(self) | self.row()


def workloads(data: Path, *, quick: bool) -> list[Workload]:
    """The three kinds of texts."""
    gold = read_gold(data / "ner" / "ncbi-disease" / "test.tsv")
    sentences = [" ".join(text.words) for text in gold.texts]
    questions = _read_json(data / "qa" / "pubmedqa_labeled.json")
    abstracts = [
        "\n".join(question["CONTEXTS"]) for question in questions.values()
    ]
    covid = _read_json(data / "qa" / "covid_qa_train.json")
    articles = [
        paragraph["context"]
        for article in covid["data"]
        for paragraph in article["paragraphs"]
    ]
    sizes = (20, 5, 1) if quick else (940, 300, 15)
    n_sentences, n_abstracts, n_articles = sizes
    return [
        Workload("sentences", sentences[:n_sentences]),
        Workload("abstracts", abstracts[:n_abstracts]),
        Workload("articles", articles[:n_articles]),
    ]


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def make_pipeline(tagger: EntityTagger) -> Any:
    """Hugging Face's pipeline with the same weights and its own tokenizer."""
    network = tagger.network
    model = AutoModelForTokenClassification.from_config(
        copy.deepcopy(network.config)
    )
    model.load_state_dict(network.state_dict())
    return transformers.pipeline(
        "token-classification",
        model=model.eval(),
        tokenizer=load_tokenizer(find_encoder()),
        aggregation_strategy="first",
        device="cpu",
    )


def piped(
    texts: list[str],
    *,
    pipe: Any,
    batch_size: int,
    stride: int | None,
) -> list[Spans]:
    """The pipeline's entities of each text."""
    options: dict[str, Any] = {}
    if stride is not None:
        options["stride"] = stride
    if batch_size == ONE_BY_ONE:
        predictions = [pipe(text, **options) for text in texts]
    else:
        predictions = pipe(texts, batch_size=batch_size, **options)
    return [
        _spans_with_letters(text, entities)
        for text, entities in zip(texts, predictions, strict=True)
    ]


def _spans_with_letters(text: str, entities: list[dict[str, Any]]) -> Spans:
    """The pipeline's entities of a text, without those that have no letter."""
    spans = []
    for entity in entities:
        start = entity["start"]
        end = entity["end"]
        if has_letter(text[start:end]):
            spans.append((start, end, entity["entity_group"]))
    return spans


def has_letter(text: str) -> bool:
    """Whether a character of the text is a letter."""
    return any(map(str.isalpha, text))


def ours(texts: list[str], *, tagger: EntityTagger) -> list[Spans]:
    """Our entities of each text."""
    return [
        [(e.start, e.end, e.label) for e in entities]
        for entities in tagger.tag_many(texts)
    ]


def compare(
    workload: Workload,
    tagger: EntityTagger,
    *,
    rounds: int,
) -> Comparison:
    """Tag one workload in all three ways, after a warm-up."""
    say(f"{workload.name}: warming up, and the pipeline's best batch size")
    texts = workload.texts
    sample = workload.texts[: SAMPLE[workload.name]]
    stride = STRIDE if workload.name == "articles" else None
    pipe = partial(
        piped,
        pipe=make_pipeline(tagger),
        stride=stride,
    )
    pipe(sample[:2], batch_size=ONE_BY_ONE)
    ours(sample, tagger=tagger)
    batch = fastest_size(lambda size: pipe(sample, batch_size=size), BATCHES)
    ways: dict[str, Callable[[], list[Spans]]] = {
        OURS: partial(ours, texts, tagger=tagger),
        AS_CALLED: partial(pipe, texts, batch_size=ONE_BY_ONE),
        AT_ITS_BEST: partial(pipe, texts, batch_size=batch),
    }
    results, seconds = take_turns(ways, rounds=rounds)
    differences = explain_differences(
        texts,
        results[OURS],
        results[AS_CALLED],
        tagger=tagger,
    )
    return Comparison(
        workload=workload.name,
        texts=len(texts),
        words=sum(len(split_words(text)) for text in texts),
        batch=batch,
        seconds=seconds,
        **differences,
    )


def explain_differences(
    texts: list[str],
    ours: list[Spans],
    theirs: list[Spans],
    *,
    tagger: EntityTagger,
) -> dict[str, int]:
    """How many texts the pipeline sees whole, and why entities differ; see `Comparison`."""
    counts = {
        "seen_whole": 0,
        "identical": 0,
        "broken": 0,
        "ruled": 0,
    }
    results = zip(texts, ours, theirs, strict=True)
    total = len(texts)
    for text, our_spans, their_spans in counted(
        results,
        what="comparing",
        total=total,
    ):
        if not is_seen_whole(text, tagger):
            continue
        counts["seen_whole"] += 1
        if our_spans == their_spans:
            counts["identical"] += 1
        elif breaks_iob2(text, tagger):
            counts["broken"] += 1
        elif before_rules(text, tagger) == their_spans:
            counts["ruled"] += 1
    return counts


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in split_words(text)]


def is_seen_whole(text: str, tagger: EntityTagger) -> bool:
    """Whether the pipeline reads the text in one window, with the same word pieces."""
    pieces = tagger.word_tokenizer.tokenize(_words(text))
    encoded = tagger.tokenizer(
        text,
        add_special_tokens=False,
        verbose=False,
    )
    fits = len(pieces.ids) + 2 <= min(tagger.window, LIMIT)
    return fits and pieces.ids.tolist() == encoded["input_ids"]


def breaks_iob2(text: str, tagger: EntityTagger) -> bool:
    """Whether the most likely tags, or breaks in the text, are not what the decoder uses."""
    pieces = tagger.word_tokenizer.tokenize(_words(text))
    (scores,) = tagger.log_probabilities([pieces])
    breaks = starts_after_breaks(text, split_words(text))
    starts = np.append(0, breaks)
    path = best_path(scores, starts=starts)
    return not np.array_equal(path, scores.argmax(axis=1))


def before_rules(text: str, tagger: EntityTagger) -> Spans:
    """What the network finds: no abbreviation is listed, and no rule changes an entity."""
    words = split_words(text)
    pieces = WordTokenizer(tagger.tokenizer).tokenize(_words(text))
    (entities,) = tagger.entities([pieces])
    spans = []
    for first, stop, label, _ in entities:
        start = int(words[first, 0])
        end = int(words[stop - 1, 1])
        if has_letter(text[start:end]):
            spans.append((start, end, label))
    return spans


def main() -> None:
    """Measure, print the table and write the JSON; exit 1 if entities differ without a reason."""
    parser = options(__doc__)
    add_data_option(parser)
    parser.add_argument(
        "--model",
        default="disease-drug",
        help="shipped name or folder (disease-drug)",
    )
    asked = parser.parse_args()
    rounds = 1 if asked.quick else asked.rounds
    tagger = EntityTagger.from_pretrained(asked.model, device="cpu")
    comparisons = [
        compare(workload, tagger, rounds=rounds)
        for workload in workloads(asked.data, quick=asked.quick)
    ]
    packages = ("torch", "transformers")
    report_comparisons(
        comparisons,
        packages=packages,
        out=asked.out,
    )
    unexplained = sum(comparison.unexplained for comparison in comparisons)
    if unexplained:
        sys.exit(
            f"{unexplained} texts have other entities than the pipeline's for no known reason"
        )


if __name__ == "__main__":
    main()
