"""What `domainbert serve` offers of biomed's models: entities, answers, similar terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from domainbert.service.served import Announced, Served

if TYPE_CHECKING:
    from domainbert.encoders.precision import Dtype


def _entities(name: str, *, dtype: Dtype = "float32", **_: object) -> Served:
    from biomed.ner.tagger import EntityTagger
    from biomed.ner.task import TagTask

    tagger = EntityTagger.from_pretrained(name, dtype=dtype)
    return Served(tagger, {"entities": TagTask(tagger)})


def _answers(name: str, *, dtype: Dtype = "float32", **_: object) -> Served:
    from biomed.qa.model import QuestionAnswerer
    from biomed.qa.task import AskTask

    model = QuestionAnswerer.from_pretrained(name, dtype=dtype)
    return Served(model, {"answers": AskTask(model)})


def _similar(name: str, *, dtype: Dtype = "float32", **_: object) -> Served:
    from biomed.terms.similarity import NearestTask, TermEmbedder, TermIndex

    model = TermEmbedder.from_pretrained(name, dtype=dtype)
    return Served(model, {"similar": NearestTask(TermIndex(model))})


ENTITIES = Announced("entities", "biomed", _entities)
ANSWERS = Announced("qa", "biomed", _answers)
SIMILAR = Announced("terms", "biomed", _similar)
