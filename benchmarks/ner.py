"""Speed of `EntityTagger.tag_many` compared with Hugging Face's pipeline.

Both find entities with the same weights, in fp32 on the CPU, from raw texts to exact spans:

- ours: `tag_many`;
- as called: the token-classification pipeline as in its documentation, with
  `aggregation_strategy="first"`, one text at a time; full articles with `stride`, because it would
  otherwise read only their first 512 tokens;
- at its best: the same with its fastest batch size.

The texts are sentences (NCBI-disease, test), abstracts (PubMedQA) and full articles (COVID-QA).
Entities are compared on texts of one window with the same word pieces. There they may differ only
if the most likely tags of the words are not valid IOB2, which the pipeline repairs in its own way,
if ours ends an entity at a list item, or by our rules on what the network finds: entities with a
low score or loose ends, and abbreviations that the text defines. Entities without a letter are left
out of both.

    python benchmarks/ner.py --data ../shared/data --out ner.json
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from reporting import options, report, say, seconds_of, spread, versions_of
from transformers import AutoModelForTokenClassification

from biomed import EntityTagger
from biomed.corpora import read_gold
from biomed.corpora.words import split_words, starts_after_breaks
from biomed.ner.decoding import best_path
from biomed.ner.pieces import WordReader
from domainbert.encoders.loading import find_encoder, load_tokenizer

LIMIT = 512  # tokens of a window
STRIDE = 64  # overlap of the pipeline's windows, as ours
ONE_BY_ONE = 0
BATCHES = (2, 4, 8, 16, 32, 64)
SAMPLE = {
    "sentences": 128,
    "abstracts": 48,
    "articles": 3,
}  # texts that choose the batch size

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
        seconds = {
            method: np.array(values) for method, values in self.seconds.items()
        }
        return {
            "texts": f"{self.texts} {self.workload} of {self.words / self.texts:.0f} words",
            "texts/s": spread(self.texts / seconds["ours"], ".3g"),
            "words/s": spread(self.words / seconds["ours"], ".0f"),
            "× as called": spread(
                seconds["as called"] / seconds["ours"], ".2f"
            ),
            "× at its best": spread(
                seconds["at its best"] / seconds["ours"], ".2f"
            ),
            "its batch": str(self.batch),
            "identical": f"{self.identical} of {self.seen_whole} seen whole",
            "invalid tags": str(self.broken),
            "our rules": str(self.ruled),
        }


def workloads(data: Path, *, quick: bool) -> list[Workload]:
    """The three kinds of texts."""
    gold = read_gold(data / "ner" / "ncbi-disease" / "test.tsv")
    sentences = [" ".join(text.words) for text in gold.texts]
    questions = json.loads(
        (data / "qa" / "pubmedqa_labeled.json").read_text(encoding="utf-8")
    )
    abstracts = [
        "\n".join(question["CONTEXTS"]) for question in questions.values()
    ]
    covid = json.loads(
        (data / "qa" / "covid_qa_train.json").read_text(encoding="utf-8")
    )
    articles = [
        p["context"]
        for article in covid["data"]
        for p in article["paragraphs"]
    ]
    sizes = (20, 5, 1) if quick else (940, 300, 15)
    kinds = {
        "sentences": sentences,
        "abstracts": abstracts,
        "articles": articles,
    }
    return [
        Workload(name, texts[:size])
        for (name, texts), size in zip(kinds.items(), sizes, strict=True)
    ]


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
    texts: list[str], *, pipe: Any, batch_size: int, stride: int | None
) -> list[Spans]:
    """The pipeline's entities of each text."""
    options: dict[str, Any] = {}
    if stride is not None:
        options["stride"] = stride
    if batch_size == ONE_BY_ONE:
        predictions = [pipe(text, **options) for text in texts]
    else:
        predictions = pipe(texts, batch_size=batch_size, **options)
    spans = []
    for text, entities in zip(texts, predictions, strict=True):
        text_spans = [
            (entity["start"], entity["end"], entity["entity_group"])
            for entity in entities
            if any(map(str.isalpha, text[entity["start"] : entity["end"]]))
        ]
        spans.append(text_spans)
    return spans


def ours(texts: list[str], *, tagger: EntityTagger) -> list[Spans]:
    """Our entities of each text."""
    return [
        [(e.start, e.end, e.label) for e in entities]
        for entities in tagger.tag_many(texts)
    ]


def compare(
    workload: Workload, tagger: EntityTagger, *, rounds: int
) -> Comparison:
    """Tag one workload in all three ways, after a warm-up."""
    say(f"{workload.name}: warming up, and the pipeline's best batch size")
    texts = workload.texts
    sample = workload.texts[: SAMPLE[workload.name]]
    stride = STRIDE if workload.name == "articles" else None
    pipe = partial(piped, pipe=make_pipeline(tagger), stride=stride)
    pipe(sample[:2], batch_size=ONE_BY_ONE)
    ours(sample, tagger=tagger)
    trials = [
        seconds_of(partial(pipe, sample, batch_size=size)) for size in BATCHES
    ]
    batch = BATCHES[int(np.argmin(trials))]
    ways: dict[str, Callable[[], list[Spans]]] = {
        "ours": partial(ours, texts, tagger=tagger),
        "as called": partial(pipe, texts, batch_size=ONE_BY_ONE),
        "at its best": partial(pipe, texts, batch_size=batch),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    results: dict[str, list[Spans]] = {}
    for number in range(1, rounds + 1):
        say(f"  round {number} of {rounds}")
        for name, action in ways.items():
            start = time.perf_counter()
            results[name] = action()
            seconds[name].append(time.perf_counter() - start)
    seen_whole = [
        number
        for number, text in enumerate(texts)
        if is_seen_whole(text, tagger)
    ]
    same = [
        n for n in seen_whole if results["ours"][n] == results["as called"][n]
    ]
    broken = [
        n
        for n in seen_whole
        if n not in same and breaks_iob2(texts[n], tagger)
    ]
    unlike = [n for n in seen_whole if n not in same and n not in broken]
    ruled = [
        n
        for n in unlike
        if before_rules(texts[n], tagger) == results["as called"][n]
    ]
    return Comparison(
        workload=workload.name,
        texts=len(texts),
        words=sum(len(split_words(text)) for text in texts),
        batch=batch,
        seen_whole=len(seen_whole),
        identical=len(same),
        broken=len(broken),
        ruled=len(ruled),
        seconds=seconds,
    )


def is_seen_whole(text: str, tagger: EntityTagger) -> bool:
    """Whether the pipeline reads the text in one window, with the same word pieces."""
    pieces = tagger.reader.read(
        [text[start:end] for start, end in split_words(text)]
    )
    theirs = tagger.tokenizer(text, add_special_tokens=False, verbose=False)[
        "input_ids"
    ]
    fits = len(pieces.ids) + 2 <= min(tagger.window, LIMIT)
    return fits and pieces.ids.tolist() == theirs


def breaks_iob2(text: str, tagger: EntityTagger) -> bool:
    """Whether the most likely tags, or breaks in the text, are not what the decoder uses."""
    words = split_words(text)
    pieces = tagger.reader.read([text[start:end] for start, end in words])
    (scores,) = tagger.log_probabilities([pieces])
    starts = np.append(0, starts_after_breaks(text, words))
    path = best_path(scores, starts=starts)
    return not np.array_equal(path, scores.argmax(axis=1))


def before_rules(text: str, tagger: EntityTagger) -> Spans:
    """What the network finds: no abbreviation is listed, and no rule changes an entity."""
    words = split_words(text)
    reader = WordReader(tagger.tokenizer)
    pieces = reader.read([text[start:end] for start, end in words])
    (entities,) = tagger.entities([pieces])
    spans = [
        (int(words[first, 0]), int(words[stop - 1, 1]), kind)
        for first, stop, kind, _ in entities
    ]
    return [
        span for span in spans if any(map(str.isalpha, text[slice(*span[:2])]))
    ]


def main() -> None:
    """Measure, print the table and write the JSON; exit 1 if entities differ without a reason."""
    parser = options("Time EntityTagger against the pipeline.")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--model",
        default="disease-drug",
        help="shipped name or folder (disease-drug)",
    )
    asked = parser.parse_args()
    tagger = EntityTagger.from_pretrained(asked.model, device="cpu")
    comparisons = [
        compare(workload, tagger, rounds=1 if asked.quick else asked.rounds)
        for workload in workloads(asked.data, quick=asked.quick)
    ]
    report(
        [comparison.row() for comparison in comparisons],
        setting={
            "threads": torch.get_num_threads(),
            **versions_of("torch", "transformers"),
        },
        measured={"comparisons": [asdict(c) | c.row() for c in comparisons]},
        out=asked.out,
    )
    if unexplained := sum(
        comparison.unexplained for comparison in comparisons
    ):
        sys.exit(
            f"{unexplained} texts have other entities than the pipeline's for no known reason"
        )


if __name__ == "__main__":
    main()
