"""What `domainbert serve` offers of biomed's models: entities, answers, similar terms."""

from domainbert.service.served import Announced, Served


def _entities(name: str, **_: object) -> Served:
    from biomed.ner.tagger import EntityTagger
    from biomed.ner.task import TagTask

    tagger = EntityTagger.from_pretrained(name)
    return Served(tagger, {"entities": TagTask(tagger)})


def _answers(name: str, **_: object) -> Served:
    from biomed.qa.model import QuestionAnswerer
    from biomed.qa.task import AskTask

    model = QuestionAnswerer.from_pretrained(name)
    return Served(model, {"answers": AskTask(model)})


def _similar(name: str, **_: object) -> Served:
    from biomed.terms.similarity import NearestTask, TermEmbedder, TermIndex

    model = TermEmbedder.from_pretrained(name)
    return Served(model, {"similar": NearestTask(TermIndex(model))})


ENTITIES = Announced("entities", "biomed", _entities)
ANSWERS = Announced("qa", "biomed", _answers)
SIMILAR = Announced("terms", "biomed", _similar)
