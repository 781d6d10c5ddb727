"""Speed of `QuestionAnswerer.answer_many` compared with a plain loop over padded windows.

    python benchmarks/qa.py --model qa --out qa.json
    python benchmarks/qa.py --quick               # does it run?

Takes 10 minutes on two cores. Both answer the same questions with the same weights, in fp32 on the
CPU, from raw texts to exact spans over all windows of 384 tokens, in turn:

- ours: `answer_many`;
- loop: Hugging Face's tokenizer cuts each question and its text into overlapping windows padded
  to 384 tokens; its model reads them one after the other; the best span of each window is found,
  and the best of all is the answer.

The texts are full articles (COVID-QA, held-out), and paragraphs (SQuAD). Questions that ask for a
number are left out, because the loop does not prefer answers with one. Otherwise it follows the
same rules: whole words, a letter or digit, the same longest answer, start plus end logit less
[CLS]'s. Without --model the head is untrained.

How to read the table: "× loop" is how many times as fast ours is, within a round, the median with
the smallest and the largest. "identical" counts the questions with the same characters as the
answer; "alike" those of the others whose two answers score within 1e-4. The exit status is 1 if an
answer differs otherwise.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from measuring import say, take_turns
from reporting import (
    add_data_option,
    options,
    rates,
    report_comparisons,
    spread,
    times,
)
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

Answers = list[tuple[int, int, float]]  # start, end and score of each


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
        ours = self.seconds["ours"]
        return {
            "texts": f"{self.questions} {self.workload}, {self.windows} windows",
            "texts/s": spread(rates(self.questions, ours), ".3g"),
            "tokens/s": spread(rates(self.tokens, ours), ".0f"),
            "× loop": times(self.seconds["loop"], ours),
            "identical": f"{self.identical} of {self.questions}",
            "alike": str(self.close),
        }

    def measured(self) -> dict[str, Any]:
        """All numbers, for the JSON file."""
        return asdict(self) | self.row()


def workloads(data: Path, *, quick: bool) -> list[Workload]:
    """Whole articles, each with one of its questions, and paragraphs."""
    covid = read_questions(data / "qa" / "covid_qa_train.json")
    _, held_out = split_by_article(covid, share=0.2)
    of_article = {}
    for question in held_out.questions:
        if not asks_number(question.text):
            of_article[question.article] = (question.text, question.context)
    squad = read_questions(data / "qa" / "squad_v1.1_dev.json")
    paragraphs = [
        (question.text, question.context)
        for question in squad.questions[::50]
        if not asks_number(question.text)
    ]
    articles = list(of_article.values())
    if quick:
        articles = articles[:1]
        paragraphs = paragraphs[:8]
    return [
        Workload("articles", articles),
        Workload("paragraphs", paragraphs),
    ]


def make_answerer(name: str | None) -> QuestionAnswerer:
    """A model in windows of 384; without a name an untrained head on the shipped encoder."""
    if name is None:
        torch.manual_seed(0)
        network = load_model(
            find_encoder(),
            transformers.BertForQuestionAnswering,
        )
        tokenizer = load_tokenizer(find_encoder())
    else:
        loaded = QuestionAnswerer.from_pretrained(name, device="cpu")
        network = loaded.network
        tokenizer = loaded.tokenizer
    settings = QuestionSettings(window=WINDOW, overlap=OVERLAP)
    return QuestionAnswerer(
        network,
        tokenizer,
        settings=settings,
        device="cpu",
    )


def ours(
    pairs: list[tuple[str, str]],
    *,
    answerer: QuestionAnswerer,
) -> Answers:
    """Our answers."""
    answers = answerer.answer_many(pairs, threshold=-np.inf)
    return [(answer.start, answer.end, answer.score) for (answer,) in answers]


@dataclass(frozen=True)
class Loop:
    """The plain loop.

    Attributes:
        model: Hugging Face's own class.
        tokenizer: of its own.
        longest: tokens of an answer, at most.
    """

    model: Any
    tokenizer: Any
    longest: int

    def answers(self, pairs: list[tuple[str, str]]) -> Answers:
        """The best span of each text."""
        return [self._answer(question, text) for question, text in pairs]

    def _answer(self, question: str, context: str) -> tuple[int, int, float]:
        encoded = self.tokenizer(
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
        edges = word_edges(self.tokenizer, context)
        spans = []
        for number in range(len(encoded["input_ids"])):
            offsets = encoded["offset_mapping"][number].numpy()
            sides = encoded.sequence_ids(number)
            window = Window(
                offsets=offsets,
                is_context=np.array([side == 1 for side in sides]),
                has_word=has_word(context, offsets),
            )
            start, end = self._logits(encoded, number)
            spans.append(
                window.best(start, end, edges=edges, longest=self.longest)
            )
        # The first of equals.
        return max(spans, key=lambda span: (span[2], -span[0]))

    def _logits(
        self,
        encoded: Any,
        number: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The start and end logits of one window."""
        names = ("input_ids", "attention_mask", "token_type_ids")
        row = slice(number, number + 1)
        inputs = {name: encoded[name][row] for name in names}
        with torch.inference_mode():
            output = self.model(**inputs)
        start = output.start_logits[0].numpy()
        end = output.end_logits[0].numpy()
        return start, end


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
    begins = offsets[np.append(True, changes), 0]
    ends = offsets[np.append(changes, True), 1]
    return begins, ends


def has_word(text: str, offsets: np.ndarray) -> np.ndarray:
    """Whether each token has a letter or digit."""
    parts = [text[start:end] for start, end in offsets]
    return np.array([any(map(str.isalnum, part)) for part in parts])


@dataclass(frozen=True)
class Window:
    """What is known of the tokens of one window.

    Attributes:
        offsets: their characters in the text, shape (tokens, 2).
        is_context: whether they are of the text, not of the question, shape (tokens,).
        has_word: whether they have a letter or digit, shape (tokens,).
    """

    offsets: np.ndarray
    is_context: np.ndarray
    has_word: np.ndarray

    def best(
        self,
        start: np.ndarray,
        end: np.ndarray,
        *,
        edges: tuple[np.ndarray, np.ndarray],
        longest: int,
    ) -> tuple[int, int, float]:
        """Characters and score of the best span.

        Args:
            start: logits, shape (tokens,).
            end: logits, shape (tokens,).
            edges: characters where words of the text begin, and where they end.
            longest: tokens of a span, at most.
        """
        word_begins, word_ends = edges
        begins = self.is_context & np.isin(self.offsets[:, 0], word_begins)
        ends = self.is_context & np.isin(self.offsets[:, 1], word_ends)
        begin_scores = np.where(begins, start, -np.inf)
        end_scores = np.where(ends, end, -np.inf)
        scores = begin_scores[:, None] + end_scores[None]
        legal = self._legal_spans(longest)
        best = np.where(legal, scores, -np.inf).argmax()
        first, last = np.unravel_index(best, scores.shape)
        without_answer = start[0] + end[0]
        score = float(scores[first, last] - without_answer)
        return int(self.offsets[first, 0]), int(self.offsets[last, 1]), score

    def _legal_spans(self, longest: int) -> np.ndarray:
        """Which first and last tokens make a span, shape (tokens, tokens)."""
        n_tokens = len(self.has_word)
        is_short = np.tri(n_tokens, k=longest - 1, dtype=bool)
        is_reversed = np.tri(n_tokens, k=-1, dtype=bool)
        # A run of marks alone is no answer: the last token must reach the next word.
        numbers = np.arange(n_tokens)
        next_word = np.where(self.has_word, numbers, n_tokens)
        next_word = np.minimum.accumulate(next_word[::-1])[::-1]
        reaches_word = numbers >= next_word[:, None]
        return is_short & ~is_reversed & reaches_word


def compare(
    workload: Workload,
    answerer: QuestionAnswerer,
    *,
    rounds: int,
) -> Comparison:
    """Answer one workload in both ways, in turn, after a warm-up."""
    say(f"{workload.name}: warming up")
    pairs = workload.pairs
    loop = make_loop(answerer)
    ours(pairs[:1], answerer=answerer)
    loop.answers(pairs[:1])
    ways = {
        "ours": partial(ours, pairs, answerer=answerer),
        "loop": partial(loop.answers, pairs),
    }
    results, seconds = take_turns(ways, rounds=rounds)
    identical = 0
    close = 0
    for our, their in zip(results["ours"], results["loop"], strict=True):
        *our_span, our_score = our
        *their_span, their_score = their
        if our_span == their_span:
            identical += 1
        elif abs(our_score - their_score) < TOLERANCE:
            close += 1
    windows: list[int] = []
    for question, context in pairs:
        windows += tokens_of_windows(answerer, question, context)
    return Comparison(
        workload=workload.name,
        questions=len(pairs),
        windows=len(windows),
        tokens=sum(windows),
        identical=identical,
        close=close,
        seconds=seconds,
    )


def make_loop(answerer: QuestionAnswerer) -> Loop:
    """The plain loop with the weights of ours."""
    config = copy.deepcopy(answerer.network.config)
    model = AutoModelForQuestionAnswering.from_config(config)
    model.load_state_dict(answerer.network.state_dict())
    tokenizer = load_tokenizer(find_encoder())
    return Loop(model.eval(), tokenizer, answerer.max_answer)


def tokens_of_windows(
    answerer: QuestionAnswerer,
    question: str,
    context: str,
) -> list[int]:
    """Tokens of each window of a question and its text."""
    pair_tokenizer = answerer.pair_tokenizer
    pair = pair_tokenizer.pair(question, context)
    return [len(window.ids) for window in pair_tokenizer.windows(pair)]


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where answers differ without a reason."""
    parser = options(__doc__)
    add_data_option(parser)
    parser.add_argument(
        "--model",
        help="shipped name or folder; else an untrained head",
    )
    asked = parser.parse_args()
    rounds = 1 if asked.quick else asked.rounds
    answerer = make_answerer(asked.model)
    comparisons = [
        compare(workload, answerer, rounds=rounds)
        for workload in workloads(asked.data, quick=asked.quick)
    ]
    packages = ("torch", "transformers")
    report_comparisons(comparisons, packages=packages, out=asked.out)
    unexplained = sum(comparison.unexplained for comparison in comparisons)
    if unexplained:
        sys.exit(
            f"{unexplained} questions have another answer than the loop's, for no known reason"
        )


if __name__ == "__main__":
    main()
