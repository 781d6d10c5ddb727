"""The spaCy component "biomed": entities with assertions and ids in `doc.ents`.

`nlp.add_pipe("biomed")` finds it where the package is installed with the extra `spacy`. spaCy
checks the options by their annotations, which older versions read only if they are no strings.
"""

from collections.abc import Iterable, Iterator
from itertools import tee

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from biomed.ner.entities import MIN_SCORE, Entity
from biomed.ner.linking import EntityLinker
from biomed.ner.tagger import EntityTagger
from domainbert.text.sentences import sentence_spans

_FIELDS = (
    "score",
    "assertion",
    "section",
    "link_score",
    "codes",
    "medication",
)


@Language.factory(
    "biomed",
    default_config={
        "model": "disease-drug",
        "min_score": MIN_SCORE,
        "dictionary": None,
    },
    assigns=["doc.ents", "doc.spans", "token.is_sent_start"],
)
def make_component(
    nlp: Language,
    name: str,
    *,
    model: str,
    min_score: float,
    dictionary: str | None,
) -> "BiomedComponent":
    """The component with an entity model and perhaps the table of a dictionary."""
    del nlp, name  # spaCy passes them by name
    linker = dictionary and EntityLinker.from_table(dictionary)
    tagger = EntityTagger.from_pretrained(
        model,
        min_score=min_score,
        linker=linker or None,
    )
    return BiomedComponent(tagger)


class BiomedComponent:
    """Sets `doc.ents` and `doc.spans["biomed"]`, and the starts of sentences if they are not set.

    `ent.kb_id_` is the concept's id; `ent._.score`, `ent._.assertion`, `ent._.section`,
    `ent._.link_score`, `ent._.codes` and `ent._.medication` are as in `Entity`. Spans widen to
    spaCy's tokens. Entities that an earlier component set stay, and ours are added where they do
    not overlap them; `doc.spans["biomed"]` has all of ours.
    """

    def __init__(self, tagger: EntityTagger) -> None:
        self._tagger = tagger
        for field in _FIELDS:
            if not Span.has_extension(field):
                Span.set_extension(field, default=None)

    def __call__(self, doc: Doc) -> Doc:
        """Annotate one document."""
        return next(self.pipe([doc]))

    def pipe(
        self, stream: Iterable[Doc], *, batch_size: int = 0
    ) -> Iterator[Doc]:
        """Annotate documents in order, in constant memory; batches are counted in tokens."""
        del batch_size
        docs, copies = tee(stream)
        tagged = self._tagger.tag_many(doc.text for doc in copies)
        # Entities first: a thread reads ahead, and the document of a result is in the copy already.
        for entities, doc in zip(tagged, docs, strict=True):
            yield _annotated(doc, entities)


def _annotated(doc: Doc, entities: list[Entity]) -> Doc:
    """A spaCy document with the entities as spans."""
    if not doc.has_annotation("SENT_START"):
        starts = {start for start, _ in sentence_spans(doc.text)}
        for token in doc:
            token.is_sent_start = token.i == 0 or token.idx in starts
    spans = []
    for entity in entities:
        span = doc.char_span(
            entity.start,
            entity.end,
            label=entity.label,
            kb_id=entity.id or "",
            alignment_mode="expand",
        )
        for field in _FIELDS:
            span._.set(field, getattr(entity, field))
        spans.append(span)
    doc.spans["biomed"] = spans
    earlier = list(doc.ents)
    taken = {token.i for span in earlier for token in span}
    added = [
        span
        for span in filter_spans(spans)
        if taken.isdisjoint(range(span.start, span.end))
    ]
    doc.ents = [*earlier, *added]
    return doc
