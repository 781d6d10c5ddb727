"""`BiomedFolder`, the base class of biomed's models, and the card that it writes at every save."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from biomed import models
from domainbert.intervals import Interval
from domainbert.model import Model

if TYPE_CHECKING:
    from pathlib import Path

    from domainbert.storage import TaskConfig

# How a card uses each task's model: variable, class, call.
_USAGE = {
    "terms": ("embedder", "TermEmbedder", 'similarity("heart failure", "cardiomyopathy")'),
    "sentences": ("encoder", "SentenceEncoder", "encode(texts)"),
    "pairs": ("model", "CrossEncoder", "predict(first, second)"),
    "entities": ("tagger", "EntityTagger", "tag(text)"),
    "qa": ("answerer", "QuestionAnswerer", "answer(question, context)"),
    "yesno": ("decider", "YesNoAnswerer", "decide(question, context)"),
}


class BiomedFolder(Model):
    """A task model of biomed."""

    @classmethod
    def resolve(cls, name: str | Path) -> str | Path:
        """The folder of a shipped model, or the name unchanged."""
        return models.resolve(name)

    def card(self, config: TaskConfig) -> str:
        """Markdown for the folder's README.

        The manifest's `card` (title, data, limits, licence, rebuild) comes from the recipe. Its
        `scores` are {column: {row: number, or {"value", "low", "high"}}}; `scores_note` says how
        they were measured. `counts` says what the model was trained on ({what: number}).
        """
        from jinja2 import Environment, PackageLoader

        card = config.manifest.get("card", {})
        variable, kind, call = _USAGE[config.task]
        loaded = f'biomed.{kind}.from_pretrained("{card.get("name", "MODEL")}")'
        # The card is Markdown for people, not HTML for a browser: nothing to escape.
        environment = Environment(loader=PackageLoader("biomed"), autoescape=False)  # noqa: S701
        return environment.get_template("model_card.md.j2").render(
            config=asdict(config),
            manifest=config.manifest,
            card=card,
            usage=f"{variable} = {loaded}\n{variable}.{call}",
            scores=score_rows(config.manifest),
        )


def score_rows(manifest: dict[str, Any]) -> list[list[str]]:
    """The table of scores as text, its head first; empty where nothing was measured."""
    scores: dict[str, dict[str, Any]] = manifest.get("scores", {})
    if not scores:
        return []
    names = dict.fromkeys(row for column in scores.values() for row in column)
    rows = [[row, *(spell(column.get(row)) for column in scores.values())] for row in names]
    return [["", *scores], *rows]


def spell(value: float | dict[str, float] | None) -> str:
    """A number, with its interval where it has one, as tables show it."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return str(Interval(**value))
    return f"{value:.3f}" if isinstance(value, float) else str(value)
