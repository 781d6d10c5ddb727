"""What `domainbert serve` offers of biomed's models: entities, answers, similar terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from domainbert.service.served import Announced, Served

if TYPE_CHECKING:
    from collections.abc import Callable

    from domainbert.scoring import Task


def _announced(task: str, path: str, make: Callable[[str], tuple[Any, Task]]) -> Announced:
    def load(name: str, *, cache: object) -> Served:
        del cache
        model, served = make(name)
        known = model.manifest.get("example")
        return Served(
            name=name,
            fingerprint=model.fingerprint(),
            tasks={path: served},
            example=(path, known["record"], known["row"]) if known else None,
            card=model.card(model.config, model.adapter) if model.config else "",
        )

    return Announced(task, "biomed", load)


def _entities(name: str) -> tuple[Any, Task]:
    from biomed.ner.tagger import Tagger
    from biomed.ner.task import TagTask

    tagger = Tagger.from_pretrained(name)
    return tagger.networks[0], TagTask(tagger)


def _answers(name: str) -> tuple[Any, Task]:
    from biomed.qa.model import AnswerModel
    from biomed.qa.task import AskTask

    model = AnswerModel.from_pretrained(name)
    return model, AskTask(model)


def _similar(name: str) -> tuple[Any, Task]:
    from biomed.terms.similarity import TermIndex, TermModel
    from biomed.terms.task import NearestTask

    model = TermModel.from_pretrained(name)
    return model, NearestTask(TermIndex(model))


ENTITIES = _announced("entities", "entities", _entities)
ANSWERS = _announced("qa", "answers", _answers)
SIMILAR = _announced("terms", "similar", _similar)
