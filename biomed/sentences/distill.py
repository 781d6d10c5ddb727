"""Distillation: a student for another language, with fewer layers, or with no layer at all."""

from __future__ import annotations

import copy
import io
import sys
from contextlib import ExitStack, redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from biomed.sentences.encoder import SentenceEncoder
from domainbert.encoders import quiet
from domainbert.errors import UserError
from domainbert.files import folder_beside, replace_folder
from domainbert.settings import Count  # noqa: TC001  (pydantic reads it)
from domainbert.training.recipes import ModelTable, Recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentence_transformers import SentenceTransformer

HELD_OUT = 20  # one text of so many chooses the weights
MOST_HELD_OUT = 500
STATIC = 256  # dimensions of a static model


class StudentTable(ModelTable):
    """The `[model]` table; `encoder` is the teacher.

    Attributes:
        layers: that the student keeps, evenly spaced; None for all.
        pieces: of the new language's vocabulary at most.
        train: with translations, "pieces" (the vectors of the new pieces alone, so that the
            teacher's own language is read exactly as before) or "all" weights.
    """

    layers: Count | None = None
    pieces: Count = 4000
    train: Literal["pieces", "all"] = "pieces"


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

    With translations, the target of a sentence's translation is the sentence's vector, and the
    student starts as the teacher with a vocabulary of the new language. One sentence of twenty,
    500 at most, chooses the weights.

    Args:
        recipe: the plan.
        sentences: in the teacher's language.
        translations: of each.
        student: what to start from instead of the teacher; its vocabulary is kept.

    Raises:
        UserError: fewer than two sentences, another number of translations, an empty text, or a
            student of another width.
    """
    from biomed.sentences.vocabulary import next_piece
    from domainbert.training.distillation import check_width, fit_to_vectors, with_layers

    teacher = SentenceEncoder.from_pretrained(recipe.model.encoder)
    sides = {"sentences": sentences}
    if translations is not None:
        sides["translations"] = translations
    _check_texts(sides, teacher)
    vectors = teacher.embed(sentences)
    order = np.random.default_rng(recipe.training.seed).permutation(len(sentences))
    held = max(1, min(MOST_HELD_OUT, len(sentences) // HELD_OUT))

    def chosen(rows: np.ndarray) -> dict[str, list[str]]:
        return {name: [texts[row] for row in rows] for name, texts in sides.items()}

    first_row = None
    if student is None:
        student = _student(recipe, teacher, **chosen(order[held:]))
        if translations and recipe.model.train == "pieces" and not recipe.model.layers:
            first_row = next_piece(teacher.tokenizer)
            del sides["sentences"]  # their vectors cannot change
    elif recipe.model.layers:
        with_layers(student, recipe.model.layers)
    check_width(teacher.dimension, student)

    def targeted(rows: np.ndarray) -> dict[str, Any]:
        return {name: (texts, vectors[rows]) for name, texts in chosen(rows).items()}

    trained = fit_to_vectors(
        student,
        list(targeted(order[held:]).values()),
        validation=targeted(order[:held]),
        teacher=recipe.model.encoder,
        training=recipe.training,
        first_row=first_row,
    )
    trained.manifest |= {
        "card": recipe.card.model_dump(),
        "scores": {"validation": trained.manifest["validation"]},
        "scores_note": f"Cosines with the teacher's vectors, {held} held-out sentences.",
    }
    return trained


def distill_static(teacher: str | Path, *, dimension: int | None = None) -> SentenceTransformer:
    """A static model: a vector per piece of the vocabulary, and their mean, by model2vec.

    It reads no context and has no limit of length. It is a model of sentence-transformers, and
    `save_static` writes it.

    Args:
        teacher: shipped name, folder or hub:owner/name.
        dimension: of the vectors, by principal components; by default 256, or the teacher's if
            that is smaller.

    Raises:
        UserError: model2vec is not installed, or a dimension that the teacher has not.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    try:
        import model2vec.distill  # noqa: F401
    except ImportError:
        raise UserError("static models need model2vec: pip install 'domainbert[static]'") from None
    encoder = SentenceEncoder.from_pretrained(teacher)
    dimension = min(STATIC, encoder.dimension) if dimension is None else dimension
    if not 1 <= dimension <= encoder.dimension:
        msg = f"dimension must be from 1 to {encoder.dimension} for this teacher, got {dimension}"
        raise UserError(msg)
    with TemporaryDirectory() as folder, ExitStack() as silent:
        silent.enter_context(quiet())
        if not sys.stderr.isatty():
            silent.enter_context(redirect_stderr(io.StringIO()))
        path = Path(folder) / "teacher"
        encoder.save_pretrained(path, merged=True)
        module = StaticEmbedding.from_distillation(str(path), device="cpu", pca_dims=dimension)
    return SentenceTransformer(modules=[module], device="cpu")


def check_absent(folder: Path) -> None:
    """Refuse a folder that is there, because a static model replaces nothing.

    Raises:
        FileExistsError: it is there.
    """
    if folder.exists():
        msg = f"{folder} exists already; name another folder"
        raise FileExistsError(msg)


def save_static(model: SentenceTransformer, folder: str | Path) -> None:
    """Write a static model as a folder of sentence-transformers.

    Raises:
        FileExistsError: the folder is there.
    """
    folder = Path(folder)
    check_absent(folder)
    with folder_beside(folder) as temporary:
        model.save_pretrained(str(temporary), create_model_card=False)
        replace_folder(temporary, folder)


def _student(
    recipe: DistillRecipe,
    teacher: SentenceEncoder,
    sentences: Sequence[str],
    translations: Sequence[str] | None = None,
) -> SentenceEncoder:
    """A copy of the teacher that reads the new language and has the layers asked for."""
    from biomed.sentences.vocabulary import extend_tokenizer, next_piece, start_vectors
    from domainbert.training.distillation import with_layers

    network, tokenizer = copy.deepcopy(teacher.network), teacher.tokenizer
    if translations is not None:
        tokenizer = extend_tokenizer(
            tokenizer, translations, sources=sentences, pieces=recipe.model.pieces
        )
        first = next_piece(teacher.tokenizer)
        start_vectors(network, tokenizer, first=first, sources=sentences, translations=translations)
    student = SentenceEncoder(network, tokenizer, settings=teacher.settings)
    if recipe.model.layers:
        with_layers(student, recipe.model.layers)
    return student


def _check_texts(sides: dict[str, Sequence[str]], teacher: SentenceEncoder) -> None:
    sentences, translations = sides["sentences"], sides.get("translations")
    if len(sentences) < 2:
        msg = f"distillation needs at least two sentences, got {len(sentences)}"
        raise UserError(msg)
    if translations is not None and len(translations) != len(sentences):
        msg = f"{len(sentences)} sentences but {len(translations)} translations; give one for each"
        raise UserError(msg)
    for name, texts in sides.items():
        if empty := list(teacher.windower.without_tokens(texts)):
            msg = f"{len(empty)} {name} are empty, the first is number {empty[0]}; leave them out"
            raise UserError(msg)
