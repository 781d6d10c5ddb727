"""Train a question-answering model in stages, choosing the weights on held-out articles."""

from __future__ import annotations

import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biomed.qa.answerer import QuestionAnswerer
from biomed.qa.evaluation import judge, score
from biomed.qa.examples import WindowMaker
from biomed.qa.network import QuestionSettings, SpanReader
from biomed.qa.questions import QuestionSet, check_answered, evenly, fingerprint, without_articles
from biomed.qa.threshold import find_threshold
from domainbert.errors import UserError
from domainbert.training.old.batches import EpochBatches
from domainbert.training.old.checkpoints import resume_point
from domainbert.training.old.recipes import versions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transformers import PreTrainedModel

    from domainbert.training.settings import TrainingSettings

log = logging.getLogger(__name__)
CHOOSING = 96  # validation questions that choose the weights


@dataclass(frozen=True)
class Stage:
    """One stage of training.

    Attributes:
        questions: to train on.
        training: how.
        negatives: windows without the answer for each question with one, on average.
    """

    questions: QuestionSet
    training: TrainingSettings
    negatives: float = 1.0


def fit(
    stages: Sequence[Stage],
    *,
    validation: QuestionSet,
    encoder: str | Path,
    settings: QuestionSettings | None = None,
    choosing: int = CHOOSING,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> SpanReader:
    """Train on the stages one after the other, each from the weights that the one before chose.

    The weights kept are those with the best F1 on some of the validation questions, evenly taken
    from all its articles; at the end all of them are scored. Where the settings name no threshold,
    the one is kept that tells best whether an article has the answer (`find_threshold`).
    A training question that shares an article or a passage with validation is left out.

    Args:
        stages: general questions first, those of the field last. The first one's rank, dropout,
            seed and `full` hold for all.
        validation: questions with answers, of articles that no stage has.
        encoder: shipped name, folder or Hub id.
        settings: windows, longest answer, threshold.
        choosing: how many validation questions choose the weights.
        checkpoints: folder that keeps the trainer's checkpoints; a temporary one by default.
        resume: go on from the last checkpoint there; a stage that was finished is not run again.

    Returns:
        The trained model, on the device it trained on.

    Raises:
        QuestionError: a stage or a validation side without answers.
        ValueError: no stage, or negatives < 0.
    """
    if not stages:
        msg = "fit needs a stage: fit([Stage(questions, TrainingSettings())], …)"
        raise UserError(msg)
    for stage in stages:
        check_answered(stage.questions, what="training")
    check_answered(validation, what="validation")
    first = stages[0].training
    model = SpanReader.untrained(encoder, training=first, settings=settings)
    makers = [_maker(model, stage, validation) for stage in stages]
    with tempfile.TemporaryDirectory() as temporary:
        model = _train(
            model,
            makers,
            [stage.training for stage in stages],
            validate=_validator(model, evenly(validation, choosing)),
            encoder=encoder,
            folder=Path(checkpoints or temporary),
            resume=resume,
        )
    model.manifest = _manifest(stages, makers, validation)
    judged = judge(QuestionAnswerer(model), validation)
    model.manifest["validation"] |= score(judged).to_dict()
    if model.settings.threshold is None:
        found = find_threshold(QuestionAnswerer(model), judged, count=choosing)
        model.set_threshold(found.threshold)
        model.manifest["no_answer"] = found.to_dict()
    return model


def _maker(model: SpanReader, stage: Stage, validation: QuestionSet) -> WindowMaker:
    questions = without_articles(stage.questions, validation)
    if dropped := len(stage.questions) - len(questions):
        log.warning(
            "%s: %d questions share an article with validation and are left out",
            questions.name,
            dropped,
        )
    maker = WindowMaker(
        questions,
        reader=model.reader,
        negatives=stage.negatives,
        longest=model.max_answer,
        seed=stage.training.seed,
    )
    if maker.left_out:
        log.warning(
            "%s: %d questions have no usable answer and are left out",
            questions.name,
            maker.left_out,
        )
    return maker


def _validator(
    model: SpanReader, questions: QuestionSet
) -> Callable[[PreTrainedModel], dict[str, float]]:
    """Network -> exact match and F1, by the path that prediction takes."""
    answerer = QuestionAnswerer(model)

    def validate(network: PreTrainedModel) -> dict[str, float]:
        found = score(judge(answerer, questions, network=network))
        return {"f1": found.f1, "exact": found.exact}

    return validate


def _train(
    model: SpanReader,
    makers: Sequence[WindowMaker],
    trainings: Sequence[TrainingSettings],
    *,
    validate: Callable[[PreTrainedModel], dict[str, float]],
    encoder: str | Path,
    folder: Path,
    resume: bool,
) -> SpanReader:
    from biomed.qa.trainer import SpanTrainer
    from domainbert.lora import add_lora

    lora = trainings[0].lora
    network = add_lora(model.network, lora)
    for number, (maker, training) in enumerate(zip(makers, trainings, strict=True), start=1):
        stage = folder / f"stage-{number}"
        batches = EpochBatches(maker, batch_tokens=training.batch_tokens, seed=training.seed)
        log.info("stage %d: %d questions, %d steps an epoch", number, len(maker), len(batches))
        trainer = SpanTrainer(
            network,
            batches=batches,
            settings=training,
            evaluate=validate,
            pad_token_id=model.tokenizer.pad_token_id,
            folder=stage,
        )
        trainer.train(resume_from_checkpoint=resume_point(stage, training, resume=resume))
        network = trainer.trained()
    return model.finished(network, encoder=encoder, lora=lora)


def _manifest(
    stages: Sequence[Stage], makers: Sequence[WindowMaker], validation: QuestionSet
) -> dict[str, Any]:
    def spelled(name: str) -> Any:
        values = list(dict.fromkeys(getattr(stage.training, name) for stage in stages))
        return values[0] if len(values) == 1 else ", then ".join(map(str, values))

    shown = ("epochs", "learning_rate", "batch_tokens", "seed")
    counts = {
        f"{stage.questions.name}, questions for training": len(maker)
        for stage, maker in zip(stages, makers, strict=True)
    }
    articles = {article for question in validation.questions for article in question.articles}
    return {
        # What the card says in one line; each stage's settings stand below in full.
        "training": {name: spelled(name) for name in shown},
        "counts": counts
        | {"questions held out": len(validation), "articles held out": len(articles)},
        "stages": [
            {
                "questions": stage.questions.name,
                "sha256": fingerprint(stage.questions),
                "used": len(maker),
                "negatives": stage.negatives,
                "training": stage.training.model_dump(),
            }
            for stage, maker in zip(stages, makers, strict=True)
        ],
        "validation": {"sha256": fingerprint(validation)},
        "versions": versions(),
    }
