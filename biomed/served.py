"""What `domainbert serve` offers of biomed's models: entities, answers, similar terms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.service.served import Announced, Served

if TYPE_CHECKING:
    from domainbert.scoring import Task


def _served(name: str, path: str, model: Any, task: Task) -> Served:
    known = model.manifest.get("example")
    card = model.card(model.config, model.adapter) if model.config else ""
    example = (path, known["record"], known["row"]) if known else None
    return Served(Path(name).name, model.fingerprint(), {path: task}, card=card, example=example)


def _entities(name: str, **_: object) -> Served:
    from biomed.ner.tagger import Tagger
    from biomed.ner.task import TagTask

    tagger = Tagger.from_pretrained(name)
    return _served(name, "entities", tagger.network, TagTask(tagger))


def _answers(name: str, **_: object) -> Served:
    from biomed.qa.model import AnswerModel
    from biomed.qa.task import AskTask

    model = AnswerModel.from_pretrained(name)
    return _served(name, "answers", model, AskTask(model))


def _similar(name: str, **_: object) -> Served:
    from biomed.terms.similarity import TermIndex, TermModel
    from biomed.terms.task import NearestTask

    model = TermModel.from_pretrained(name)
    return _served(name, "similar", model, NearestTask(TermIndex(model)))


ENTITIES = Announced("entities", "biomed", _entities)
ANSWERS = Announced("qa", "biomed", _answers)
SIMILAR = Announced("terms", "biomed", _similar)
