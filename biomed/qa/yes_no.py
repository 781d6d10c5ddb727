"""Questions answered by yes, no or maybe: reading them, and training a pair model in folds."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from sklearn.metrics import accuracy_score, f1_score

from biomed.folder import BiomedFolder
from biomed.qa.formats import read_questions
from biomed.qa.questions import QuestionError
from domainbert.errors import UserError
from domainbert.pairs import PairModel, PairSettings
from domainbert.settings import Count  # noqa: TC001  (pydantic reads the annotation)
from domainbert.training.recipes import ModelTable, Recipe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from domainbert.pairs import PairResult

LABELS = ("yes", "no", "maybe")
SCORES_NOTE = (
    "{folds}-fold cross-validation over {count} questions: each is answered by a model that was "
    "neither trained nor chosen on it. This model is that of the last fold."
)
log = logging.getLogger(__name__)
Decision = tuple[str, str, str]  # a question, the text that decides it, and the right label


class YesNoAnswerer(BiomedFolder, PairModel):
    """Reads a question and its context together and says yes, no or maybe.

    A context too long for one window is read in several, whose logits are averaged.
    """

    task = "yesno"
    train_command = "biomed qa yesno train QUESTIONS --encoder {encoder} --out MODEL"

    def decide(self, question: str, context: str) -> PairResult:
        """The `label` and the `probabilities` of all labels; see `PairModel.predict`."""
        return self.predict(question, context)


class YesNoModelTable(ModelTable):
    """The `[model]` table; see `PairSettings`."""

    window: Count | None = None
    overlap: Annotated[int, Field(ge=0)] = 0


class YesNoRecipe(Recipe):
    """A recipe for yes, no or maybe."""

    model: YesNoModelTable = YesNoModelTable()


def read_decisions(path: str | Path) -> list[Decision]:
    """Read the yes/no questions of PubMedQA or BioASQ; see `biomed.qa.formats.read_questions`.

    The context is PubMedQA's abstract without its conclusion, or BioASQ's snippets, one per line.
    Every question needs a context and an answer.
    """
    read = read_questions(path)
    questions = [question for question in read if question.kind == "yesno"]
    if not questions:
        raise QuestionError(f"{read.name} has no yes/no question")
    labels = [tuple(answer.lower() for answer in question.answers) for question in questions]
    if wrong := sum(len(label) != 1 or label[0] not in LABELS for label in labels):
        fault = f"{wrong} yes/no questions are not answered by {', '.join(LABELS)}"
        raise QuestionError(f"{read.name}: {fault}")
    if empty := sum(not question.passages for question in questions):
        raise QuestionError(f"{read.name}: {empty} yes/no questions have no context")
    return [
        (q.text, "\n".join(passage.text for passage in q.passages), label[0])
        for q, label in zip(questions, labels, strict=True)
    ]


def folds(questions: Sequence[Decision], *, count: int) -> list[list[Decision]]:
    """Folds (at least 2) with equal shares of each label; the order of the questions is free."""
    if not 2 <= count <= len(questions):
        raise UserError(f"folds must be between 2 and the {len(questions)} questions, got {count}")
    ordered = sorted(questions, key=lambda q: (q[2], hashlib.sha256(repr(q).encode()).digest()))
    return [ordered[number::count] for number in range(count)]


def evaluate_decisions(model: YesNoAnswerer, questions: Sequence[Decision]) -> dict[str, Any]:
    """A model's scores; see `score_decisions`."""
    found = model.predict_many((question, context) for question, context, _ in questions)
    return score_decisions([result.label for result in found], [label for *_, label in questions])


def score_decisions(predicted: Sequence[str], gold: Sequence[str]) -> dict[str, Any]:
    """Accuracy, macro F1 (over all labels) and the F1 of each label."""
    f1 = f1_score(gold, predicted, labels=LABELS, average=None, zero_division=0)
    return {
        "questions": len(gold),
        "accuracy": float(accuracy_score(gold, predicted)),
        "macro_f1": float(f1.mean()),
        "f1": dict(zip(LABELS, f1.tolist(), strict=True)),
    }


def cross_validate(questions: Sequence[Decision], recipe: YesNoRecipe, *, count: int) -> PairModel:
    """Train once per fold, and score each question by the model that never saw it.

    For fold i, fold i + 1 chooses the weights and the others are trained on, so the choice never
    uses the scored fold. PubMedQA's protocol has 10 folds (Jin et al., arXiv 1909.06146). The
    result is the model of the last fold, with the scores over all questions in its manifest.
    """
    from domainbert.training.sentences import fit_pairs

    dealt = folds(questions, count=count)
    predicted: list[str] = []
    for number, held in enumerate(dealt):
        chooses = (number + 1) % count
        train = [e for i, fold in enumerate(dealt) if i not in (number, chooses) for e in fold]
        model = fit_pairs(
            train,
            validation=dealt[chooses],
            encoder=recipe.model.encoder,
            training=recipe.training,
            settings=PairSettings(**recipe.model.model_dump(exclude={"encoder"})),
            labels=LABELS,
            model_class=YesNoAnswerer,
        )
        predicted += [found.label for found in model.predict_many((q, c) for q, c, _ in held)]
        log.info("fold %d of %d", number + 1, count)
    scores = score_decisions(predicted, [label for fold in dealt for *_, label in fold])
    row = f"{len(questions)} questions"
    model.manifest |= {
        "card": recipe.card.model_dump(),
        "cross_validation": scores,
        "scores": {"accuracy": {row: scores["accuracy"]}, "macro F1": {row: scores["macro_f1"]}},
        "scores_note": SCORES_NOTE.format(folds=count, count=len(questions)),
    }
    return model
