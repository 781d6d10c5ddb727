"""What this package gives beside tools that people use for the same jobs, on the same texts.

    make peers    # the tools in an environment of their own, then this file, which fills the pages
    PYTHONPATH=. python benchmarks/peers.py --page docs/explanation/compared.md --readme README.md

Takes 5 minutes on two cores. The second command is for an environment with the tools of
`peers.txt`. Each tool runs in a separate process (`peer.py`), which gives its peak memory, and the
tools take turns. The time does not include loading and a first text.

- Assertions: the rules of medspaCy (ConText) and of negspaCy (NegEx), each with its own cues and
  sentences, and those of `biomed`, on the same gold entities.
- Long notes: how many of the tokens of made-up discharge summaries reach the model in
  `EntityTagger` and Hugging Face's pipeline, and in `SentenceEncoder` and
  `SentenceTransformer.encode`, each called as in its documentation.

How to read the tables: F1 of negation and the accuracy of all assertions have 95% intervals from
resampling texts. "speed × ours" above 1 is faster than ours, within a round, the median with the
smallest and the largest. "last line counts" is in how many notes a drug in the last line changes
the answer. `scoring.py`, `ner.py` and `sentences.py` compare speed with other tools at their best
settings, and `quality.py` compares with TF-IDF.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from made_up_notes import discharge_summaries
from measuring import in_new_process, say
from peer import ASSERTING, LAST_LINE, READING
from reporting import (
    markdown,
    options,
    spread,
    times,
    versions_of,
    write_section,
)

from biomed import EntityTagger
from domainbert.encoders.loading import (
    DEFAULT_ENCODER,
    find_encoder,
    load_tokenizer,
)
from domainbert.files import write_json
from domainbert.statistics.bootstrap import resample
from recipes.notes.corpus import notes_gold, sections_gold

if TYPE_CHECKING:
    from biomed.corpora.documents import Document

CASES = Path("tests/biomed/notes/assertion_cases.jsonl")
PEER = Path(__file__).with_name("peer.py")
SUMMARIES = 20
REAL = "sections of real notes"
TAGGER, PIPELINE, ENCODER, TRANSFORMER = READING
PACKAGES = (
    "medspacy",
    "negspacy",
    "spacy",
    "transformers",
    "sentence-transformers",
)
OURS = {PIPELINE: TAGGER, TRANSFORMER: ENCODER}  # what does the same job

Span = tuple[int, int, str]
Runs = dict[str, list[dict[str, Any]]]  # of each tool, one a round


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
        gold = [assertion for _, _, assertion in case["gold"]]
        yield Mentions(case["text"], spans, gold)


def tagged(data: Path) -> dict[str, list[Mentions]]:
    """The corpora, by what they are."""
    corpora = {"hand-made sentences": list(hand_made("held-out"))}
    golds = {"invented texts": notes_gold("test")}
    if (data / "notes").is_dir():
        golds[REAL] = sections_gold("test", data)
    for name, gold in golds.items():
        corpora[name] = [mentions_of(document) for document in gold.documents]
    return corpora


def mentions_of(document: Document) -> Mentions:
    """The gold entities of a document."""
    spans = [(span.start, span.end, span.label) for span in document.spans]
    assertions = [span.assertion for span in document.spans]
    return Mentions(document.text, spans, assertions)


def measure(inputs: Mapping[str, object], *, rounds: int) -> Runs:
    """Run each tool once a round; the first time it also counts what it reads."""
    runs: Runs = {tool: [] for tool in (*ASSERTING, *READING)}
    with tempfile.TemporaryDirectory() as folder:
        # As Hugging Face's pipeline is used: with a folder that has all weights.
        weights = Path(folder) / "weights"
        EntityTagger.from_pretrained().save_pretrained(weights, merged=True)
        sources = {
            TAGGER: "",
            PIPELINE: str(weights),
            ENCODER: DEFAULT_ENCODER,
            TRANSFORMER: str(find_encoder().location),
        }
        file = Path(folder) / "inputs.json"
        file.write_text(json.dumps({**inputs, "sources": sources}), "utf-8")
        for number in range(rounds):
            only_cost = ["--quick"] if number else []
            for tool, of_tool in runs.items():
                say(f"round {number + 1} of {rounds}: {tool}")
                of_tool.append(in_new_process(PEER, tool, file, *only_cost))
    return runs


def cost(
    runs: Runs,
    tool: str,
    ours: str,
    texts: int,
    what: str,
) -> dict[str, str]:
    """Speed and memory of a tool; a ratio is of two runs of one round."""
    seconds = np.array([run["seconds"] for run in runs[tool]])
    our_seconds = np.array([run["seconds"] for run in runs[ours]])
    peaks = [run["peak"] for run in runs[tool]]
    speeds = texts / seconds
    digits = ",.0f" if speeds.min() >= 100 else ".3g"
    return {
        f"{what} a second": spread(speeds, digits),
        "speed × ours": times(our_seconds, seconds),
        "peak memory, MB": spread(peaks, ".0f"),
    }


def assertion_rows(
    corpora: Mapping[str, Sequence[Mentions]],
    runs: Runs,
) -> list[dict[str, str]]:
    """For each corpus, F1 of negation and accuracy of all assertions by each method.

    A method that knows more is not rewarded for it: mentions of other people, who may have their
    own negation, are left out of the first, and allergies out of the second.
    """
    rows = []
    first = 0
    for corpus, documents in corpora.items():
        last = first + len(documents)
        answers = {
            method: np.concatenate(runs[method][0]["answers"][first:last])
            for method in ASSERTING
        }
        rows.append({"texts": corpus, **assertion_scores(documents, answers)})
        first = last
    return rows


def assertion_scores(
    documents: Sequence[Mentions],
    answers: Mapping[str, np.ndarray],
) -> dict[str, str]:
    """The scores of each method on one corpus; its answers have the shape (mentions,)."""
    gold = np.concatenate([document.gold for document in documents])
    sizes = [len(document.gold) for document in documents]
    texts = np.repeat(np.arange(len(documents)), sizes)
    is_counted = ~np.isin(gold, ["", "other"])
    is_named = ~np.isin(gold, ["", "allergy"])
    is_negated = gold == "negated"
    negation = {}
    accuracies = {}
    for method, names in answers.items():
        negation[f"negation: {method}"] = f1_text(
            is_negated[is_counted],
            names[is_counted] == "negated",
            texts[is_counted],
        )
        if method != "negspaCy":  # which knows negation only
            is_right = gold[is_named] == names[is_named]
            accuracy = accuracy_text(is_right, texts[is_named])
            accuracies[f"all: {method}"] = accuracy
    return {"mentions": str(is_counted.sum()), **negation, **accuracies}


def f1_text(
    gold: np.ndarray,
    predicted: np.ndarray,
    texts: np.ndarray,
) -> str:
    """F1 with its interval from resampling texts; all arrays have shape (mentions,)."""

    def f1(weights: np.ndarray) -> float:
        correct = weights @ (gold & predicted)
        return 2 * correct / max(weights @ gold + weights @ predicted, 1)

    return interval_text(f1, texts)


def accuracy_text(correct: np.ndarray, texts: np.ndarray) -> str:
    """The share of correct mentions with its interval from resampling texts."""
    return interval_text(
        lambda weights: weights @ correct / weights.sum(),
        texts,
    )


def interval_text(
    measure: Callable[[np.ndarray], float],
    texts: np.ndarray,
) -> str:
    """A measure of weighted mentions with its interval from resampling texts."""
    _, codes = np.unique(texts, return_inverse=True)
    resampled = resample(measure, codes)
    low, high, _ = resampled.spread
    return f"{float(resampled.value):.3f} [{low:.3f}, {high:.3f}]"


def long_note_rows(notes: Sequence[str], runs: Runs) -> list[dict[str, str]]:
    """How much of long notes reaches the model, whether their last line counts, and the cost."""
    tokenizer = load_tokenizer(find_encoder())
    texts = [note + LAST_LINE for note in notes]
    encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]
    totals = list(map(len, encoded))
    rows = []
    for tool in READING:
        read = runs[tool][0]
        tokens = sum(map(min, read["tokens"], totals))
        row = {
            "called as documented": f"`{tool}`",
            "tokens that reach the model": f"{tokens / sum(totals):.0%}",
            "last line counts": f"{read['last']} of {len(notes)}",
        }
        ours = OURS.get(tool, tool)
        rows.append(row | cost(runs, tool, ours, len(notes), "notes"))
    return rows


def first_lines(
    assertions: Sequence[Mapping[str, str]],
    long_notes: Sequence[Mapping[str, str]],
) -> str:
    """The README's lines about long notes and negation, from the rows of both tables."""
    (scores,) = (row for row in assertions if row["texts"] == REAL)
    shares = [row["tokens that reach the model"] for row in long_notes]
    read = dict(zip(READING, shares, strict=True))
    return (
        "- **Long notes are read to the end.** "
        f"{read[TAGGER]} of the tokens of {SUMMARIES} discharge summaries "
        "reach the\n  entity model; in Hugging Face's pipeline, called as documented, "
        f"{read[PIPELINE]} do ([side by side](docs/explanation/compared.md)).\n"
        f"- **What a mention means.** F1 of negation on {REAL}: "
        f"{scores['negation: domainbert']};\n  medspaCy {scores['negation: medspaCy']}, "
        f"negspaCy {scores['negation: negspaCy']} (same page)."
    )


def page_text(
    assertions: Sequence[Mapping[str, str]],
    costs: Sequence[Mapping[str, str]],
    long_notes: Sequence[Mapping[str, str]],
    *,
    n_texts: int,
    n_notes: int,
    rounds: int,
) -> str:
    """Markdown: the tables and how they were measured."""
    versions = versions_of(*PACKAGES)
    packages = ", ".join(f"{name} {v}" for name, v in versions.items())
    setting = (
        f"Written by `make peers` ({packages}; {os.cpu_count()} cores, median of "
        f"{rounds} rounds with the smallest and the largest)."
    )
    parts = [
        setting,
        markdown(assertions),
        f"What that costs, on all {n_texts} texts:",
        markdown(costs),
        f"{n_notes} made-up discharge summaries, each with a last line about a drug:",
        markdown(long_notes),
    ]
    return "\n\n".join(parts)


def main() -> None:
    """Measure, print the tables, and write them into the page and the README."""
    parser = options(__doc__)
    parser.add_argument(
        "--page",
        type=Path,
        help="whose section `peers` is replaced",
    )
    parser.add_argument(
        "--readme",
        type=Path,
        help="whose section `six` is replaced",
    )
    asked = parser.parse_args()
    data = Path(os.environ.get("DOMAINBERT_DATA", "../shared/data"))
    n_notes = 2 if asked.quick else SUMMARIES
    notes = discharge_summaries(
        n_notes,
        stays=n_notes,
        seed=0,
    )
    corpora = tagged(data)
    mentions = [
        {"text": document.text, "spans": document.spans}
        for documents in corpora.values()
        for document in documents
    ]
    runs = measure({"notes": notes, "mentions": mentions}, rounds=asked.rounds)
    if asked.out:
        write_json(runs, asked.out)
    n_texts = len(mentions)
    assertions = assertion_rows(corpora, runs)
    costs = []
    for tool in ASSERTING:
        row = cost(runs, tool, "domainbert", n_texts, "texts")
        costs.append({"assertions by": tool, **row})
    long_notes = long_note_rows(notes, runs)
    text = page_text(
        assertions,
        costs,
        long_notes,
        n_texts=n_texts,
        n_notes=len(notes),
        rounds=asked.rounds,
    )
    print(text)
    if asked.page:
        write_section(asked.page, "peers", text)
    if asked.readme:
        write_section(asked.readme, "six", first_lines(assertions, long_notes))


if __name__ == "__main__":
    main()
