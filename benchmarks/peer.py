"""One of the tools that `peers.py` compares, in a process of its own: time, memory and answers.

    python benchmarks/peer.py medspaCy inputs.json

A process imports only what its tool needs. The inputs are a JSON file that `peers.py` writes, and
so is what comes out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from measuring import resident_bytes, seconds_of

if TYPE_CHECKING:
    import numpy as np
    import torch
    from spacy.language import Language
    from spacy.tokens import Doc

Mentions = dict[str, Any]  # `text`, and `spans` of start, end and label
LAST_LINE = "\n\nMedication at discharge: metformin."
# [PAD], [CLS], [SEP], [MASK] and unused ids come before words.
LAST_SPECIAL_ID = 999
# Qualifiers of ConText in the order in which one decides, and what they are called here.
CONTEXT = {
    "is_family": "other",
    "is_negated": "negated",
    "is_uncertain": "possible",
    "is_hypothetical": "possible",
    "is_historical": "historical",
}


class Reader(NamedTuple):
    """A tool that reads notes: its network, a call for all, and whether a last line counts."""

    network: torch.nn.Module
    read: Callable[[list[str]], object]
    reads_last: Callable[[str], bool]


def by_biomed() -> Callable[[Mentions], list[str]]:
    """The rules of `biomed`."""
    from biomed.notes.assertion import assert_spans

    return lambda mentions: assert_spans(mentions["text"], mentions["spans"])


def by_medspacy() -> Callable[[Mentions], list[str]]:
    """ConText with its own cues and sentences."""
    import medspacy
    from loguru import logger

    logger.remove()  # medspaCy's sentence splitter logs each word of a text
    parts = ["medspacy_pyrush", "medspacy_context"]
    return partial(
        by_spacy,
        nlp=medspacy.load(medspacy_enable=parts),
        read=by_context,
    )


def by_negspacy() -> Callable[[Mentions], list[str]]:
    """NegEx with its own cues, and spaCy's sentences by rule."""
    import spacy
    from negspacy.negation import Negex  # noqa: F401 - registers the component "negex"

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("negex")
    return partial(by_spacy, nlp=nlp, read=by_negex)


def by_spacy(
    mentions: Mentions,
    *,
    nlp: Language,
    read: Callable[[Doc, int], str],
) -> list[str]:
    """Assertions of a spaCy pipeline that is handed the gold entities."""
    from spacy.util import filter_spans

    doc = nlp.make_doc(mentions["text"])
    spans = [
        doc.char_span(
            start,
            end,
            label=label,
            alignment_mode="expand",
        )
        for start, end, label in mentions["spans"]
    ]
    doc.ents = filter_spans(spans)
    for _, component in nlp.pipeline:
        doc = component(doc)
    numbers = {ent.start: number for number, ent in enumerate(doc.ents)}
    assertions = []
    for span in spans:
        number = numbers.get(span.start)
        assertions.append("present" if number is None else read(doc, number))
    return assertions


def by_context(doc: Doc, number: int) -> str:
    """What ConText says of an entity."""
    marks = doc.ents[number]._
    for mark, name in CONTEXT.items():
        if getattr(marks, mark):
            return name
    return "present"


def by_negex(doc: Doc, number: int) -> str:
    """What NegEx says of an entity: negated or not."""
    return "negated" if doc.ents[number]._.negex else "present"


def our_tagger(_: str) -> Reader:
    """`EntityTagger`, a note at a time."""
    from biomed import EntityTagger

    tagger = EntityTagger.from_pretrained()

    def reads_last(note: str) -> bool:
        entities = tagger.tag(note + LAST_LINE)
        return any(entity.start >= len(note) for entity in entities)

    def read(notes: list[str]) -> object:
        return list(map(tagger.tag, notes))

    return Reader(tagger.network, read, reads_last)


def pipeline(folder: str) -> Reader:
    """Hugging Face's pipeline with the weights in a folder, a note at a time."""
    from transformers import pipeline

    pipe = pipeline(
        "token-classification",
        model=folder,
        aggregation_strategy="first",
        device="cpu",
    )

    def reads_last(note: str) -> bool:
        entities = pipe(note + LAST_LINE)
        return any(entity["start"] >= len(note) for entity in entities)

    def read(notes: list[str]) -> object:
        return list(map(pipe, notes))

    return Reader(pipe.model, read, reads_last)


def our_encoder(name: str) -> Reader:
    """`SentenceEncoder`, all notes in one call."""
    from biomed import SentenceEncoder

    encoder = SentenceEncoder.from_pretrained(name, device="cpu")
    reads_last = partial(changes, encoder.encode)
    return Reader(encoder.network, encoder.encode, reads_last)


def sentence_transformer(folder: str) -> Reader:
    """`SentenceTransformer`, all notes in one call."""
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(folder, device="cpu")
    reads_last = partial(changes, encoder.encode)
    return Reader(encoder, encoder.encode, reads_last)


def changes(encode: Callable[[list[str]], np.ndarray], note: str) -> bool:
    """Whether a last line changes the vector of a note."""
    before, after = encode([note, note + LAST_LINE])
    return bool(abs(before - after).max() > 1e-6)


ASSERTING = {
    "domainbert": by_biomed,
    "medspaCy": by_medspacy,
    "negspaCy": by_negspacy,
}
READING = {
    "EntityTagger.tag": our_tagger,
    "pipeline('token-classification')": pipeline,
    "SentenceEncoder.encode": our_encoder,
    "SentenceTransformer.encode": sentence_transformer,
}


def tokens_read(reader: Reader, text: str) -> int:
    """The tokens of a text that reach a network, without padding and marks."""
    counts: list[int] = []

    def count(_: torch.nn.Module, inputs: tuple[torch.Tensor]) -> None:
        counts.append(int((inputs[0] > LAST_SPECIAL_ID).sum()))

    modules = dict(reader.network.named_modules())
    name = next(name for name in modules if name.endswith("word_embeddings"))
    handle = modules[name].register_forward_pre_hook(count)
    reader.read([text])
    handle.remove()
    return sum(counts)


def peak_megabytes() -> float:
    """The largest resident memory of this process so far, in MiB."""
    return resident_bytes(peak=True) / 2**20


def assertions(tool: str, texts: Sequence[Mentions]) -> dict[str, Any]:
    """Seconds and memory of a tool, and what it says of each mention of each text."""
    assert_all = ASSERTING[tool]()
    assert_all(texts[0])
    answers: list[list[str]] = []
    seconds = seconds_of(lambda: answers.extend(map(assert_all, texts)))
    return {
        "seconds": seconds,
        "peak": peak_megabytes(),
        "answers": answers,
    }


def readings(
    tool: str,
    notes: list[str],
    source: str,
    *,
    quick: bool,
) -> dict[str, Any]:
    """Seconds and memory of a tool, the tokens of each note that it reads, and last lines."""
    reader = READING[tool](source)
    texts = [note + LAST_LINE for note in notes]
    reader.read(texts[:1])
    measured: dict[str, Any] = {
        "seconds": seconds_of(lambda: reader.read(texts)),
        "peak": peak_megabytes(),
    }
    if not quick:
        measured["tokens"] = [tokens_read(reader, text) for text in texts]
        measured["last"] = sum(map(reader.reads_last, notes))
    return measured


def main() -> None:
    """Run one tool and print what was measured as JSON, on the last line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tool", choices=[*ASSERTING, *READING])
    parser.add_argument(
        "inputs",
        type=Path,
        help="written by peers.py",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only time and memory",
    )
    asked = parser.parse_args()
    inputs = json.loads(asked.inputs.read_text(encoding="utf-8"))
    if asked.tool in ASSERTING:
        measured = assertions(asked.tool, inputs["mentions"])
    else:
        source = inputs["sources"][asked.tool]
        measured = readings(
            asked.tool,
            inputs["notes"],
            source,
            quick=asked.quick,
        )
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
