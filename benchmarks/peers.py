r"""What this package gives beside tools that people use for the same jobs, on the same texts.

Assertions: the rules of medspaCy (ConText) and of negspaCy (NegEx), each with its own cues and
sentences, and those of `biomed`, on the same gold entities. Long notes: how many of the tokens of
made-up discharge summaries reach the model in `EntityTagger` and Hugging Face's pipeline, and in
`SentenceEncoder` and `SentenceTransformer.encode`, each called as in its documentation.

    pip install . -c constraints.txt spacy negspacy loguru quicksectx PyFastNER pysbd jsonschema \
        six unidecode nltk medspacy_unqlite pysimstring
    pip install --no-deps medspacy PyRuSH medspacy_quickumls   # their limits on spaCy are too low
    PYTHONPATH=. python benchmarks/peers.py --page docs/explanation/compared.md --readme README.md

Speed is compared by `scoring.py`, `ner.py` and `sentences.py`. TF-IDF is compared by `quality.py`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import medspacy
import numpy as np
import pandas as pd
import spacy
from loguru import logger
from negspacy.negation import Negex  # noqa: F401 - registers the component "negex"
from ner import make_pipeline
from quality import write_section
from reporting import markdown, options, versions_of
from sentence_transformers import SentenceTransformer
from spacy.util import filter_spans

from biomed import EntityTagger, SentenceEncoder
from biomed.ner.assertion import assert_spans
from clinical.datasets.hospital import synthesize
from domainbert.encoders.loading import (
    DEFAULT_ENCODER,
    find_encoder,
    load_tokenizer,
)
from domainbert.statistics.bootstrap import resample
from recipes.notes.corpus import notes_gold, sections_gold

if TYPE_CHECKING:
    import torch
    from spacy.language import Language
    from spacy.tokens import Doc

CASES = Path("tests/biomed/ner/assertion_cases.jsonl")
SUMMARIES = 20
REAL = "sections of real notes"
PIPELINE = "`pipeline('token-classification')`"
LAST_LINE = "\n\nMedication at discharge: metformin."
LAST_SPECIAL_ID = (
    999  # [PAD], [CLS], [SEP], [MASK] and unused ids come before words
)
# Qualifiers of ConText in the order in which one decides, and what they are called here.
CONTEXT = {
    "is_family": "other",
    "is_negated": "negated",
    "is_uncertain": "possible",
    "is_hypothetical": "possible",
    "is_historical": "historical",
}

Span = tuple[int, int, str]


@dataclass(frozen=True)
class Mentions:
    """The gold entities of a text with their assertions, "" where two readings are right."""

    text: str
    spans: list[Span]
    gold: list[str]


def hand_made(half: str) -> Iterator[Mentions]:
    """Hand-made sentences; those of the half "held-out" were not read while rules were written."""
    for line in CASES.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if case["half"] != half:
            continue
        spans: list[Span] = []
        end = 0
        for words, label, _ in case["gold"]:
            start = case["text"].index(words, end)
            end = start + len(words)
            spans.append((start, end, label))
        yield Mentions(
            case["text"], spans, [entry[2] for entry in case["gold"]]
        )


def tagged(data: Path) -> dict[str, list[Mentions]]:
    """The corpora, by what they are."""
    corpora = {"hand-made sentences": list(hand_made("held-out"))}
    golds = {"invented texts": notes_gold("test")}
    if (data / "notes").is_dir():
        golds[REAL] = sections_gold("test", data)
    for name, gold in golds.items():
        corpora[name] = [
            Mentions(
                document.text,
                [
                    (span.start, span.end, span.label)
                    for span in document.spans
                ],
                [span.assertion for span in document.spans],
            )
            for document in gold.documents
        ]
    return corpora


def by_rules(mentions: Mentions) -> list[str]:
    """What the rules of `biomed` say of each entity."""
    return assert_spans(mentions.text, mentions.spans)


def by_spacy(
    mentions: Mentions, *, nlp: Language, read: Callable[[Doc, int], str]
) -> list[str]:
    """Assertions of a spaCy pipeline that is handed the gold entities."""
    doc = nlp.make_doc(mentions.text)
    spans = [
        doc.char_span(start, end, label=label, alignment_mode="expand")
        for start, end, label in mentions.spans
    ]
    doc.ents = filter_spans(spans)
    for _, component in nlp.pipeline:
        doc = component(doc)
    numbers = {ent.start: number for number, ent in enumerate(doc.ents)}
    return [
        read(doc, numbers[span.start]) if span.start in numbers else "present"
        for span in spans
    ]


def by_context(doc: Doc, number: int) -> str:
    """What ConText says of an entity."""
    marks = doc.ents[number]._
    return next(
        (name for mark, name in CONTEXT.items() if getattr(marks, mark)),
        "present",
    )


def by_negex(doc: Doc, number: int) -> str:
    """What NegEx says of an entity: negated or not."""
    return "negated" if doc.ents[number]._.negex else "present"


def assertion_methods() -> dict[str, Callable[[Mentions], list[str]]]:
    """The methods by name, each set up as in its documentation, without models."""
    logger.remove()  # medspaCy's sentence splitter logs each word of a text
    context = medspacy.load(
        medspacy_enable=["medspacy_pyrush", "medspacy_context"]
    )
    negex = spacy.blank("en")
    negex.add_pipe("sentencizer")
    negex.add_pipe("negex")
    return {
        "domainbert": by_rules,
        "medspaCy": partial(by_spacy, nlp=context, read=by_context),
        "negspaCy": partial(by_spacy, nlp=negex, read=by_negex),
    }


def assertion_rows(corpora: dict[str, list[Mentions]]) -> list[dict[str, str]]:
    """For each corpus, F1 of negation and accuracy of all assertions by each method.

    A method that knows more is not rewarded for it: mentions of other people, who may have their
    own negation, are left out of the first, and allergies out of the second.
    """
    methods = assertion_methods()
    rows = []
    for corpus, documents in corpora.items():
        gold = np.array(
            [name for document in documents for name in document.gold]
        )
        sizes = [len(document.gold) for document in documents]
        texts = np.repeat(np.arange(len(documents)), sizes)
        counted = ~np.isin(gold, ["", "other"])
        named = ~np.isin(gold, ["", "allergy"])
        row = {"texts": corpus, "mentions": str(counted.sum())}
        accuracies = {}
        for method, assert_all in methods.items():
            names = np.array(
                [
                    name
                    for document in documents
                    for name in assert_all(document)
                ]
            )
            row[f"negation: {method}"] = f1_text(
                gold[counted] == "negated",
                names[counted] == "negated",
                texts[counted],
            )
            is_right = gold[named] == names[named]
            accuracies[f"all: {method}"] = accuracy_text(
                is_right, texts[named]
            )
        del accuracies["all: negspaCy"]  # which knows negation only
        rows.append(row | accuracies)
    return rows


def f1_text(gold: np.ndarray, predicted: np.ndarray, texts: np.ndarray) -> str:
    """F1 with its interval from resampling texts; all arrays have shape (mentions,)."""

    def f1(weights: np.ndarray) -> float:
        correct = weights @ (gold & predicted)
        return 2 * correct / max(weights @ gold + weights @ predicted, 1)

    return interval_text(f1, texts)


def accuracy_text(correct: np.ndarray, texts: np.ndarray) -> str:
    """The share of correct mentions with its interval from resampling texts."""
    return interval_text(
        lambda weights: weights @ correct / weights.sum(), texts
    )


def interval_text(
    measure: Callable[[np.ndarray], float], texts: np.ndarray
) -> str:
    """A measure of weighted mentions with its interval from resampling texts."""
    _, codes = np.unique(texts, return_inverse=True)
    resampled = resample(measure, codes)
    low, high, _ = resampled.spread
    return f"{float(resampled.value):.3f} [{low:.3f}, {high:.3f}]"


def long_note_rows(notes: Sequence[str]) -> list[dict[str, str]]:
    """How much of long notes reaches the model, and whether their last line counts."""
    tagger = EntityTagger.from_pretrained()
    pipe = make_pipeline(tagger)
    encoder = SentenceEncoder.from_pretrained(DEFAULT_ENCODER, device="cpu")
    transformer = SentenceTransformer(find_encoder().location, device="cpu")

    def tagged_by_ours(note: str) -> bool:
        return any(
            entity.start >= len(note)
            for entity in tagger.tag(note + LAST_LINE)
        )

    def tagged_by_pipe(note: str) -> bool:
        return any(
            entity["start"] >= len(note) for entity in pipe(note + LAST_LINE)
        )

    def changes(encode: Callable[[list[str]], np.ndarray], note: str) -> bool:
        before, after = encode([note, note + LAST_LINE])
        return not np.allclose(before, after, atol=1e-6)

    encode = encoder.encode
    encode_truncated = transformer.encode
    ways: dict[
        str, tuple[torch.nn.Module, Callable, Callable[[str], bool]]
    ] = {
        "`EntityTagger.tag`": (tagger.network, tagger.tag, tagged_by_ours),
        PIPELINE: (pipe.model, pipe, tagged_by_pipe),
        "`SentenceEncoder.encode`": (
            encoder.network,
            encode,
            partial(changes, encode),
        ),
        "`SentenceTransformer.encode`": (
            transformer,
            encode_truncated,
            partial(changes, encode_truncated),
        ),
    }
    tokenizer = load_tokenizer(find_encoder())
    texts = [note + LAST_LINE for note in notes]
    totals = [
        len(ids)
        for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]
    ]
    rows = []
    for name, (network, read, reads_last) in ways.items():
        seen = [tokens_given(network, read, text) for text in texts]
        tokens = sum(map(min, seen, totals))
        n_read = sum(map(reads_last, notes))
        rows.append(
            {
                "called as documented": name,
                "tokens that reach the model": f"{tokens / sum(totals):.0%}",
                "last line counts": f"{n_read} of {len(notes)}",
            }
        )
    return rows


def tokens_given(
    network: torch.nn.Module, read: Callable[[str], object], text: str
) -> int:
    """The tokens of a text that a call gives to a network, without padding and marks."""
    counts: list[int] = []

    def count(_: torch.nn.Module, inputs: tuple[torch.Tensor]) -> None:
        counts.append(int((inputs[0] > LAST_SPECIAL_ID).sum()))

    modules = dict(network.named_modules())
    name = next(name for name in modules if name.endswith("word_embeddings"))
    handle = modules[name].register_forward_pre_hook(count)
    read(text)
    handle.remove()
    return sum(counts)


def summaries(count: int) -> list[str]:
    """Discharge summaries of a made-up hospital."""
    with tempfile.TemporaryDirectory() as folder:
        synthesize(folder, stays=count, seed=0)
        table = pd.read_csv(Path(folder) / "NOTEEVENTS.csv")
    is_summary = table["CATEGORY"] == "Discharge summary"
    return table.loc[is_summary, "TEXT"].tolist()[:count]


def first_lines(
    assertions: Sequence[Mapping[str, str]],
    long_notes: Sequence[Mapping[str, str]],
) -> str:
    """The README's lines about long notes and negation, from the rows of both tables."""
    (scores,) = (row for row in assertions if row["texts"] == REAL)
    shares = [row["tokens that reach the model"] for row in long_notes]
    names = [row["called as documented"] for row in long_notes]
    read = dict(zip(names, shares, strict=True))
    return (
        "- **Long notes are read to the end.** "
        f"{read['`EntityTagger.tag`']} of the tokens of {SUMMARIES} discharge summaries "
        "reach the\n  entity model; in Hugging Face's pipeline, called as documented, "
        f"{read[PIPELINE]} do (`python benchmarks/peers.py`).\n"
        f"- **What a mention means.** F1 of negation on {REAL}: "
        f"{scores['negation: domainbert']};\n  medspaCy {scores['negation: medspaCy']}, "
        f"negspaCy {scores['negation: negspaCy']} (the same command)."
    )


def main() -> None:
    """Measure, print both tables, and write them into the page and the README."""
    parser = options("Compare with other tools on the same texts.")
    parser.add_argument(
        "--page", type=Path, help="whose section `peers` is replaced"
    )
    parser.add_argument(
        "--readme", type=Path, help="whose section `six` is replaced"
    )
    asked = parser.parse_args()
    data = Path(os.environ.get("DOMAINBERT_DATA", "../shared/data"))
    notes = summaries(2 if asked.quick else SUMMARIES)
    assertions = assertion_rows(tagged(data))
    long_notes = long_note_rows(notes)
    names = (
        "medspacy",
        "negspacy",
        "spacy",
        "transformers",
        "sentence-transformers",
    )
    versions = versions_of(*names)
    setting = ", ".join(
        f"{name} {version}" for name, version in versions.items()
    )
    parts = [
        f"Written by `python benchmarks/peers.py --page docs/explanation/compared.md`; {setting}.",
        markdown(assertions),
        f"{len(notes)} made-up discharge summaries, each with a last line about a drug:",
        markdown(long_notes),
    ]
    text = "\n\n".join(parts)
    print(text)
    if asked.page:
        write_section(asked.page, "peers", text)
    if asked.readme:
        write_section(asked.readme, "six", first_lines(assertions, long_notes))


if __name__ == "__main__":
    main()
