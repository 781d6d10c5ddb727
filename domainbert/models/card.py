"""The card of a model folder: Markdown from the package's template, written at every save."""

from collections.abc import Iterable, Mapping, Sequence

from domainbert.encoders.adapters import Adapter
from domainbert.models.manifest import Card, Example, Manifest, Training
from domainbert.models.storage import TaskConfig
from domainbert.settings import Settings


def model_card(
    package: str,
    config: TaskConfig,
    settings: Settings,
    manifest: Manifest,
    adapter: Adapter | None = None,
    *,
    template: str = "model_card.md.j2",
    facts: Mapping[str, object],
) -> str:
    """Markdown for a model folder's README, from a template of the package.

    `facts` are texts and tables that the template has beside those of every card.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package, "models"),
        undefined=StrictUndefined,
        # The card is Markdown for people, not HTML for a browser: nothing to escape.
        autoescape=False,  # noqa: S701
    )
    environment.filters["table"] = lambda rows: table(rows[0], rows[1:])
    return environment.get_template(template).render(
        config=config,
        settings=settings,
        manifest=manifest,
        card=manifest.card,
        training=manifest.training,
        weights=_weights(config, adapter),
        example=_example(manifest.example),
        stages=_stages(manifest.training),
        rebuild=_rebuild(manifest.card),
        **facts,
    )


def _weights(config: TaskConfig, adapter: Adapter | None) -> str:
    """What the folder has of the network."""
    if adapter is None:
        return f"All weights, started from `{config.encoder}`."
    return (
        f"A LoRA adapter of rank {adapter.rank} on the encoder `{config.encoder}`, merged when it "
        "is loaded."
    )


def _example(example: Example | None) -> str:
    """The paragraph on the example for self-tests; "" if there is none."""
    if example is None:
        return ""
    from jinja2.utils import htmlsafe_json_dumps

    record = htmlsafe_json_dumps(example.record, sort_keys=True)
    numbers = "".join(f"{name} {x:.6f}" for name, x in example.row.items())
    return f"Its example: `{record}` has {numbers}.\n\n"


def _stages(training: Training) -> str:
    """How the stages of a training were set, and the versions of the libraries."""

    def each(name: str) -> str:
        values = [str(getattr(stage, name)) for stage in training.stages]
        return ", then ".join(dict.fromkeys(values))

    start = ""
    if training.start:
        start = f", from the model `{training.start}` on"
    versions = ", ".join(map(" ".join, training.versions.items()))
    return (
        f"{each('epochs')} epochs, learning rate {each('learning_rate')}, at most "
        f"{each('batch_tokens')} tokens per step, seed {each('seed')}{start}\n({versions})."
    )


def _rebuild(card: Card) -> str:
    """The paragraph on how to train the model again; "" where that is not known."""
    if not card.rebuild:
        return ""
    return f"\nTo train it again:\n\n```\n{card.rebuild.strip()}\n```\n"


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A table with a head, as Markdown; every row has as many cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
