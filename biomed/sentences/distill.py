"""Distillation: a student for another language, or with fewer layers."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.sentences.encoder import SentenceEncoder
from domainbert.errors import UserError
from domainbert.settings import Count  # noqa: TC001  (pydantic reads it)
from domainbert.training.modules import with_layers
from domainbert.training.recipes import ModelTable, Recipe
from domainbert.training.sentences import fit_to_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

HELD_OUT = 20  # one text of so many chooses the weights
MOST_HELD_OUT = 500


class StudentTable(ModelTable):
    """The `[model]` table; `encoder` is the teacher.

    Attributes:
        layers: that the student keeps, evenly spaced; None for all.
    """

    layers: Count | None = None


class DistillRecipe(Recipe):
    """A recipe of students.

    Attributes:
        model: teacher and student.
    """

    model: StudentTable = StudentTable()


def distill(
    recipe: DistillRecipe,
    sentences: Sequence[str],
    *,
    translations: Sequence[str] | None = None,
    student: SentenceEncoder | None = None,
) -> SentenceEncoder:
    """Train a student whose vectors are the teacher's (Reimers and Gurevych 2020, 2004.09813).

    With translations, the target of a sentence's translation is the sentence's vector too. One
    sentence of twenty, 500 at most, chooses the weights.

    Args:
        recipe: the plan.
        sentences: in the teacher's language.
        translations: of each, in a language that the student's vocabulary has.
        student: what to start from; by default a copy of the teacher.

    Raises:
        UserError: fewer than two sentences, another number of translations, an empty text, or a
            student of another width.
    """
    teacher = SentenceEncoder.from_pretrained(recipe.model.encoder)
    if student is None:
        network = copy.deepcopy(teacher.network)
        student = SentenceEncoder(network, teacher.tokenizer, settings=teacher.settings)
    if recipe.model.layers:
        with_layers(student, recipe.model.layers)
    _check_width(teacher.dimension, student)
    if len(sentences) < 2:
        msg = f"distillation needs at least two sentences, got {len(sentences)}"
        raise UserError(msg)
    sides = {"sentences": sentences}
    if translations is not None:
        sides["translations"] = translations
    for name, texts in sides.items():
        if len(texts) != len(sentences):
            msg = f"{len(sentences)} sentences but {len(texts)} {name}; give one for each"
            raise UserError(msg)
        if unread := list(student.windower.without_tokens(texts)):
            msg = f"{len(unread)} {name} have no character that the student reads, the first is "
            raise UserError(f"{msg}number {unread[0]}; leave them out")
    vectors = teacher.embed(sentences)
    order = np.random.default_rng(recipe.training.seed).permutation(len(sentences))
    held = max(1, min(MOST_HELD_OUT, len(sentences) // HELD_OUT))

    def targeted(rows: np.ndarray) -> dict[str, Any]:
        return {
            name: ([texts[row] for row in rows], vectors[rows]) for name, texts in sides.items()
        }

    trained = fit_to_vectors(
        student,
        list(targeted(order[held:]).values()),
        validation=targeted(order[:held]),
        teacher=recipe.model.encoder,
        training=recipe.training,
    )
    trained.manifest |= {
        "card": recipe.card.model_dump(),
        "scores": {"validation": trained.manifest["validation"]},
        "scores_note": f"Cosines with the teacher's vectors, {held} held-out sentences.",
    }
    return trained


def _check_width(teacher: int, student: SentenceEncoder) -> None:
    """Refuse a student whose vectors cannot be compared with the teacher's.

    Raises:
        UserError: unequal widths.
    """
    if teacher != student.dimension:
        msg = (
            f"the teacher's vectors have {teacher} numbers, the student's {student.dimension}; "
            "choose a student of the same width"
        )
        raise UserError(msg)
