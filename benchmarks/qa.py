"""Articles per second of `QuestionAnswerer.answer_many` against a plain loop, in one run.

Both answer the same questions with the same weights, in fp32 on the CPU, from raw texts to exact
spans over all windows of 384 tokens. Questions that ask for a number are left out, because the loop
does not prefer answers with one.

- ours: `answer_many`;
- loop: Hugging Face's tokenizer cuts each question and its text into overlapping windows padded
  to 384 tokens; its model reads them one after the other; the best span of each is found, and the
  best of all is the answer.

The texts are full articles (COVID-QA, held-out), and paragraphs (SQuAD). The loop follows the same
rules: whole words, a letter or digit, the same longest answer, start plus end logit less [CLS]'s.
Answers have to be the same characters, unless two candidates are within 1e-4.

    python benchmarks/qa.py --data ../shared/data --out qa.json
"""

from __future__ import annotations

import copy
import sys
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from reporting import options, report, say, spread, versions_of
from transformers import AutoModelForQuestionAnswering

from biomed import QuestionAnswerer
from biomed.qa.model import QuestionSettings
from biomed.qa.questions import read_questions, split_by_article
from biomed.qa.spans import asks_number
from domainbert.encoders.loading import (
    find_encoder,
    load_model,
    load_tokenizer,
)

WINDOW = 384
OVERLAP = 96
TOLERANCE = 1e-4

Found = list[tuple[int, int, float]]


@dataclass(frozen=True)
class Workload:
    """Questions with their texts."""

    name: str
    pairs: list[tuple[str, str]] = field(repr=False)


@dataclass(frozen=True)
class Comparison:
    """What was measured for one workload; lists hold one value a round.

    Attributes:
        workload: its name.
        questions: how many.
        windows: of all of them.
        tokens: of all windows, padding not counted.
        identical: questions with the very same answer.
        close: of the others, those whose two answers score alike within the tolerance.
        seconds: of "ours" and "loop".
    """

    workload: str
    questions: int
    windows: int
    tokens: int
    identical: int
    close: int
    seconds: dict[str, list[float]]

    @property
    def unexplained(self) -> int:
        """Questions with another answer for no known reason."""
        return self.questions - self.identical - self.close

    def row(self) -> dict[str, str]:
        """A line of the table."""
        seconds = {
            method: np.array(values) for method, values in self.seconds.items()
        }
        return {
            "texts": f"{self.questions} {self.workload}, {self.windows} windows",
            "texts/s": spread(self.questions / seconds["ours"], ".3g"),
            "tokens/s": spread(self.tokens / seconds["ours"], ".0f"),
            "× loop": spread(seconds["loop"] / seconds["ours"], ".2f"),
            "identical": f"{self.identical} of {self.questions}",
            "alike": str(self.close),
        }


def workloads(data: Path, *, quick: bool) -> list[Workload]:
    """Whole articles, each with one of its questions, and paragraphs."""
    covid = split_by_article(
        read_questions(data / "qa" / "covid_qa_train.json"), share=0.2
    )[1]
    # One question of each article.
    plain = [q for q in covid.questions if not asks_number(q.text)]
    articles = {q.article: (q.text, q.context) for q in plain}
    squad = read_questions(data / "qa" / "squad_v1.1_dev.json").questions[::50]
    paragraphs = [
        (q.text, q.context) for q in squad if not asks_number(q.text)
    ]
    sizes = (1, 8) if quick else (len(articles), len(paragraphs))
    return [
        Workload("articles", list(articles.values())[: sizes[0]]),
        Workload("paragraphs", paragraphs[: sizes[1]]),
    ]


def make_answerer(name: str | None) -> QuestionAnswerer:
    """A model in windows of 384; without a name an untrained head on the shipped encoder."""
    if name is None:
        torch.manual_seed(0)
        network = load_model(
            find_encoder(), transformers.BertForQuestionAnswering
        )
        tokenizer = load_tokenizer(find_encoder())
    else:
        loaded = QuestionAnswerer.from_pretrained(name, device="cpu")
        network = loaded.network
        tokenizer = loaded.tokenizer
    settings = QuestionSettings(window=WINDOW, overlap=OVERLAP)
    return QuestionAnswerer(
        network, tokenizer, settings=settings, device="cpu"
    )


def ours(pairs: list[tuple[str, str]], *, answerer: QuestionAnswerer) -> Found:
    """Our answers."""
    answers = answerer.answer_many(pairs, threshold=-np.inf)
    return [(answer.start, answer.end, answer.score) for (answer,) in answers]


def looped(
    pairs: list[tuple[str, str]], *, model: Any, tokenizer: Any, longest: int
) -> Found:
    """The answers of the plain loop."""
    answers = []
    for question, context in pairs:
        encoded = tokenizer(
            question,
            context,
            truncation="only_second",
            max_length=WINDOW,
            stride=OVERLAP,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding="max_length",
            return_tensors="pt",
        )
        edges = word_edges(tokenizer, context)
        answers = []
        for number in range(len(encoded["input_ids"])):
            names = ("input_ids", "attention_mask", "token_type_ids")
            with torch.inference_mode():
                output = model(
                    **{
                        name: encoded[name][number : number + 1]
                        for name in names
                    }
                )
            logits = (
                output.start_logits[0].numpy(),
                output.end_logits[0].numpy(),
            )
            offsets = encoded["offset_mapping"][number].tolist()
            worded = np.array(
                [any(map(str.isalnum, context[a:b])) for a, b in offsets]
            )
            limits = {"edges": edges, "worded": worded, "longest": longest}
            answers.append(best_of_window(encoded, number, *logits, **limits))
        # The first of equals.
        answers.append(max(answers, key=lambda span: (span[2], -span[0])))
    return answers


def word_edges(tokenizer: Any, text: str) -> tuple[np.ndarray, np.ndarray]:
    """Characters where words begin, and where they end."""
    encoded = tokenizer(
        text,
        add_special_tokens=False,
        return_offsets_mapping=True,
        verbose=False,
    )
    words = np.array(encoded.word_ids(0))
    offsets = np.array(encoded["offset_mapping"])
    changes = words[1:] != words[:-1]
    return offsets[np.append(True, changes), 0], offsets[
        np.append(changes, True), 1
    ]


def best_of_window(
    encoded: Any,
    number: int,
    start: np.ndarray,
    end: np.ndarray,
    *,
    edges: tuple[np.ndarray, np.ndarray],
    worded: np.ndarray,
    longest: int,
) -> tuple[int, int, float]:
    """Characters and score of the best span of one window."""
    offsets = encoded["offset_mapping"][number].numpy()
    is_context = np.array([side == 1 for side in encoded.sequence_ids(number)])
    begins = is_context & np.isin(offsets[:, 0], edges[0])
    ends = is_context & np.isin(offsets[:, 1], edges[1])
    scores = (
        np.where(begins, start, -np.inf)[:, None]
        + np.where(ends, end, -np.inf)[None]
    )
    legal = np.tri(*scores.shape, k=longest - 1, dtype=bool) & ~np.tri(
        *scores.shape, k=-1, dtype=bool
    )
    # A run of marks alone is no answer.
    following = np.where(worded, np.arange(len(worded)), len(worded))
    following = np.minimum.accumulate(following[::-1])[::-1]
    legal &= np.arange(len(worded)) >= following[:, None]
    i, j = np.unravel_index(
        np.where(legal, scores, -np.inf).argmax(), scores.shape
    )
    return (
        int(offsets[i, 0]),
        int(offsets[j, 1]),
        float(scores[i, j] - start[0] - end[0]),
    )


def compare(
    workload: Workload, answerer: QuestionAnswerer, *, rounds: int
) -> Comparison:
    """Answer one workload in both ways, in turn, after a warm-up."""
    say(f"{workload.name}: warming up")
    model = AutoModelForQuestionAnswering.from_config(
        copy.deepcopy(answerer.network.config)
    )
    model.load_state_dict(answerer.network.state_dict())
    options = {
        "tokenizer": load_tokenizer(find_encoder()),
        "longest": answerer.max_answer,
    }
    ways = {
        "ours": partial(ours, workload.pairs, answerer=answerer),
        "loop": partial(looped, workload.pairs, model=model.eval(), **options),
    }
    ours(workload.pairs[:1], answerer=answerer)
    looped(workload.pairs[:1], model=model, **options)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    results: dict[str, Found] = {}
    for number in range(1, rounds + 1):
        say(f"  round {number} of {rounds}")
        for name, action in ways.items():
            answerer.reader.read.cache_clear()  # each round tokenises anew, as the loop does
            start = time.perf_counter()
            results[name] = action()
            seconds[name].append(time.perf_counter() - start)
    answer_pairs = list(zip(results["ours"], results["loop"], strict=True))
    same = sum(ours[:2] == theirs[:2] for ours, theirs in answer_pairs)
    alike = sum(
        abs(ours[2] - theirs[2]) < TOLERANCE
        for ours, theirs in answer_pairs
        if ours[:2] != theirs[:2]
    )
    windows = [
        window
        for question, context in workload.pairs
        for window in tokens_of_windows(answerer, question, context)
    ]
    return Comparison(
        workload=workload.name,
        questions=len(workload.pairs),
        windows=len(windows),
        tokens=sum(windows),
        identical=same,
        close=alike,
        seconds=seconds,
    )


def tokens_of_windows(
    answerer: QuestionAnswerer, question: str, context: str
) -> list[int]:
    """Tokens of each window of a question and its text."""
    reader = answerer.reader
    pair = reader.pair(question, context)
    return [len(window.ids) for window in reader.windows(pair)]


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where answers differ without a reason."""
    parser = options("Time QuestionAnswerer against a loop.")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--model", help="shipped name or folder; else an untrained head"
    )
    asked = parser.parse_args()
    answerer = make_answerer(asked.model)
    comparisons = [
        compare(workload, answerer, rounds=1 if asked.quick else asked.rounds)
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
            f"{unexplained} questions have another answer than the loop's, for no known reason"
        )


if __name__ == "__main__":
    main()
