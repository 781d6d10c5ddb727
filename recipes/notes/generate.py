"""Generate sentences in the style of clinical notes, from templates and names, with exact tags.

    python -m recipes.notes.generate runs/notes --data ../shared/data

A tenth of the names and every eighth template are kept for the devel side, so that devel measures
new names in new sentences.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from biomed.corpora.documents import Document, Span, TaggedText, tagged
from domainbert.cli.console import one_line_errors, say
from recipes.corpora import write_iob2
from recipes.notes.names import (
    CHEMICAL,
    DISEASE,
    Names,
    read_names,
    with_open_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DATA = Path(__file__).parent
HELD_OUT = 8  # every so many templates, one is for devel
MISSPELT = 0.03  # share of long names with an error
LABELS = {"disease": DISEASE, "drug": CHEMICAL}
MARKS = {"@": DISEASE, "$": CHEMICAL}  # before a filler that is one entity
_SLOT = re.compile(r"\{(\w+)\}")
_LISTS = {"numbered": "\n{}. ", "dashed": "\n- ", "lined": "\n"}
_ITEMS = {
    "diseases": (
        "{disease}",
        "{disease}",
        "{disease}",
        "{disease} ({date})",
        "{disease} on {drug}",
        "{modified}",
    ),
    "orders": ("{order}",),
    "plan": (
        "{disease}: {plan_words}, {order}",
        "{disease}: continue {drug}",
        "{disease}",
    ),
    "procedures": ("{procedure}", "{procedure} ({date})"),
}
_ORDER = (
    "{drug} {dose} {freq}",
    "{drug} {dose} {route} {freq}",
    "{drug} {dose}",
    "{drug} {freq}",
)

Part = tuple[str, str]  # a piece of text and its entity type, "" for none


@dataclass(frozen=True)
class Generator:
    """Makes notes for one side from its templates and names.

    Attributes:
        templates: lines of templates.txt.
        names: see `read_names`.
        fillers: slot -> what may fill it, from fillers.toml.
    """

    templates: tuple[str, ...]
    names: Names
    fillers: dict[str, list[str]]

    def notes(self, number: int, *, seed: int) -> Iterator[TaggedText]:
        """Tagged notes, each from one template; the same ones for the same seed."""
        random = np.random.default_rng(seed)
        while number:
            template = self.templates[random.integers(len(self.templates))]
            text = ""
            spans = []
            for part, label in self._filled(template, random):
                if label:
                    spans.append(Span(len(text), len(text) + len(part), label))
                text += part
            yield tagged(Document("note", text, tuple(spans)))[0]
            number -= 1

    def _filled(
        self, template: str, random: np.random.Generator
    ) -> Iterator[Part]:
        for position, piece in enumerate(_SLOT.split(template)):
            if position % 2:
                yield from self._slot(piece, random)
            elif piece:
                yield piece, ""

    def _slot(self, slot: str, random: np.random.Generator) -> Iterator[Part]:
        shape, _, item = slot.partition("_")
        if slot in LABELS:
            name = self.names.draw(LABELS[slot], random)
            yield _misspelt(name, random), LABELS[slot]
        elif slot in self.fillers:
            yield from self._filler(slot, random)
        elif slot == "order":
            yield from self._filled(_choice(_ORDER, random), random)
        elif slot in ("diseases", "orders"):
            yield from self._listed(slot, random)
        elif shape in _LISTS and item in _ITEMS:
            for number in range(1, random.integers(2, 7)):
                yield _LISTS[shape].format(number), ""
                yield from self._filled(_choice(_ITEMS[item], random), random)
        else:
            yield self._word(slot, random), ""

    def _filler(
        self, slot: str, random: np.random.Generator
    ) -> Iterator[Part]:
        """A filler of fillers.toml: one entity if it has a mark."""
        filler = _choice(self.fillers[slot], random)
        parts = self._filled(filler.lstrip("".join(MARKS)), random)
        label = MARKS.get(filler[0])
        if label:
            yield "".join(text for text, _ in parts), label
        else:
            yield from parts

    def _word(self, slot: str, random: np.random.Generator) -> str:
        """What fills a slot that is never an entity and has no list of its own."""
        if slot == "other":
            return _choice(self.names.no_entities, random)
        if slot == "Relative":
            return _choice(self.fillers["relative"], random).capitalize()
        if slot == "small":
            return str(random.integers(1, 10))
        if slot == "number":
            limit = 100
            if random.random() < 0.3:
                limit = 400
            return str(random.integers(2, limit))
        raise KeyError(slot)

    def _listed(
        self, slot: str, random: np.random.Generator
    ) -> Iterator[Part]:
        """A list within a line, with commas or semicolons, sometimes "and" before the last."""
        count = random.integers(1, 7)
        mark = _choice((", ", ", ", ", ", "; ", "/"), random)
        for number in range(count):
            is_last = number == count - 1
            if number and is_last and random.random() < 0.4:
                yield " and ", ""
            elif number:
                yield mark, ""
            yield from self._filled(_choice(_ITEMS[slot], random), random)


def write_notes(
    folder: Path,
    *,
    data: Path | None = None,
    texts: int = 12_000,
    seed: int = 0,
    use_open: bool = False,
) -> tuple[int, int]:
    """Write a corpus folder with train and devel sides in IOB2.

    Args:
        folder: to write train.tsv and devel.tsv to.
        data: a folder with `text/medquad.jsonl.gz` and `readmission/icd9_diagnosis_long_titles.txt`
            for more names; None uses the shipped tables only.
        texts: notes for training; devel has a tenth as many.
        seed: of the random choices.
        use_open: also names, and abbreviations that are no entity, of the open lists in `data`.

    Returns:
        The number of texts written to train and to devel.
    """
    templates = _lines("templates.txt")
    fillers = tomllib.loads((DATA / "fillers.toml").read_text("utf-8"))
    names = read_names(data)
    if use_open and data is not None:
        names = with_open_names(names, data)
        templates += _lines("templates_open.txt")
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"train": texts, "devel": max(1, texts // 10)}
    for side, size in sizes.items():
        held_out = side == "devel"
        templates_of_side = tuple(
            template
            for number, template in enumerate(templates, start=1)
            if (number % HELD_OUT == 0) == held_out
        )
        names_of_side = names.of_side(held_out=held_out)
        generator = Generator(templates_of_side, names_of_side, fillers)
        write_iob2(generator.notes(size, seed=seed), folder / f"{side}.tsv")
    return sizes["train"], sizes["devel"]


def _lines(file: str) -> list[str]:
    return (DATA / file).read_text("utf-8").splitlines()


def _choice(options: Sequence[str], random: np.random.Generator) -> str:
    return options[int(random.integers(len(options)))]


def _misspelt(name: str, random: np.random.Generator) -> str:
    """The name, rarely with a letter left out, doubled or swapped with the next."""
    if len(name) < 8 or random.random() >= MISSPELT:
        return name
    position = int(random.integers(1, len(name) - 2))
    first = name[position]
    second = name[position + 1]
    if not (first + second).isalpha():
        return name
    errors = (second, first * 2 + second, second + first)
    error = _choice(errors, random)
    return name[:position] + error + name[position + 2 :]


@one_line_errors
def main(
    out: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The corpus folder to write."),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Public data with MedQuAD and ICD-9 titles, for many more names."
        ),
    ] = None,
    texts: Annotated[
        int, typer.Option(min=1, help="Number of notes for training.")
    ] = 12_000,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    use_open: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            "--open", help="Also use the open lists in `names/` of --data."
        ),
    ] = False,
) -> None:
    """Write a corpus of generated notes with names of diseases and drugs."""
    train, devel = write_notes(
        out, data=data, texts=texts, seed=seed, use_open=use_open
    )
    say(
        f"{out}: {train} texts for training; {devel} for devel, whose names training does not have"
    )


if __name__ == "__main__":
    typer.run(main)
