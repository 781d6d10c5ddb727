"""The commands `biomed ner train`, `tag` and `evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from domainbert import options
from domainbert.console import counted, one_line_errors, say, stdout
from domainbert.errors import UserError
from domainbert.files import write_json

if TYPE_CHECKING:
    from biomed.corpora import Gold
    from biomed.ner.evaluation import Scores
    from biomed.ner.tagger import EntityTagger

app = typer.Typer(
    no_args_is_help=True,
    help="Find diseases and drugs in text of any length, with exact positions.",
)

Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="Rename an entity type: OLD=NEW; OLD= drops it. Repeatable."),
]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda, cuda:1, …; CUDA if available by default.")
]


@app.command()
@one_line_errors
def train(
    corpora: Annotated[
        list[Path],
        typer.Argument(
            metavar="CORPUS...",
            help="Folders with train, devel and optionally test, in IOB2, PubTator or BRAT.",
        ),
    ],
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    encoder: options.EncoderName = None,
    epochs: options.Epochs = None,
    learning_rate: options.LearningRate = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(help="Repeat it for several runs: the best on devel is kept."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs side by side, each with its share of the cores.")
    ] = 1,
    label: Labels = None,
    full: options.FullWeights = False,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
) -> None:
    """Train a model on one or more corpora; devel chooses the weights, test measures them."""
    from biomed.ner.training import EntityRecipe, fit_seeds, read_corpora
    from domainbert.training.recipes import read_recipe

    options.check_training(out, checkpoints=checkpoints, resume=resume)
    overrides = {
        "model.encoder": encoder,
        "training.epochs": epochs,
        "training.learning_rate": learning_rate,
        "training.full": full or None,
    }
    plan = read_recipe(EntityRecipe, recipe, overrides)
    read = read_corpora(plan, corpora, labels=_renaming(label))
    for corpus in read:
        for gold in corpus.sides.values():
            _say_remarks(gold)
    seeds = seed or [plan.training.seed]
    models = fit_seeds(read, plan, seeds=seeds, checkpoints=checkpoints, resume=resume, jobs=jobs)
    if jobs > 1:
        models = counted(models, what="seeds", total=len(seeds))
    for model in models:
        model.save_pretrained(out)
        run = model.manifest["seeds"][-1]
        scores = [f"{name} {s} {f1:.3f}" for s in ("devel", "test") for name, f1 in run[s].items()]
        say(f"seed {run['seed']}: F1 {', '.join(scores)}")
    say(f"model in {out}; README.md there has its data and scores")


@app.command()
@one_line_errors
def tag(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help=".txt (one text), or .csv, .parquet, .jsonl with a column text."
        ),
    ],
    model: Annotated[
        list[str], typer.Option(help="Shipped name, model folder, or Hub id; may be repeated.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Entities: .csv, .parquet or .jsonl; else they are shown.")
    ] = None,
) -> None:
    """Find entities in a file: one row an entity, or the text itself with its entities marked."""
    from biomed.ner.tagger import EntityTagger

    if out is None:
        _show(EntityTagger.from_pretrained(*model), source)
        return
    from biomed.ner.tables import tag_file
    from domainbert.console import progress
    from domainbert.tables import table_format

    table_format(out)  # a wrong ending should not cost an hour of tagging
    tagger = EntityTagger.from_pretrained(*model)
    rejects = out.with_name(f"{out.name.split('.')[0]}.rejects.csv")
    with progress("tagging texts") as advance:
        seen = 0
        for done in tag_file(tagger, source, out, rejects=rejects):
            advance(done.texts - seen)
            seen = done.texts
    say(f"{done.entities} entities of {done.texts} texts in {out}")
    if done.rejects:
        say(f"{done.rejects} rows have no text and are listed in {rejects}")


def _show(tagger: EntityTagger, source: Path) -> None:
    from biomed.ner.tables import read_texts

    for text in read_texts(source):
        stdout.print(tagger.show(text), soft_wrap=True)


@app.command()
@one_line_errors
def evaluate(
    gold: Annotated[
        Path, typer.Argument(metavar="GOLD", help="An IOB2 or PubTator file, or a BRAT folder.")
    ],
    model: Annotated[
        list[str],
        typer.Option(
            help="Shipped name, folder or Hub id; several are scored as an ensemble, over words."
        ),
    ],
    train: Annotated[
        Path | None, typer.Option(help="Count the texts of GOLD that are also in this corpus.")
    ] = None,
    label: Labels = None,
    json: Annotated[Path | None, typer.Option(help="Also write the scores to this file.")] = None,
    device: Device = None,
) -> None:
    """Score a model by strict IOB2 over words, and documents also by exact character spans."""
    from biomed.corpora import read_gold, without
    from biomed.ner.evaluation import (
        TaggerEnsemble,
        check_types,
        evaluate_documents,
        evaluate_words,
    )
    from biomed.ner.network import WordTagger
    from biomed.ner.tagger import EntityTagger

    right = read_gold(gold, labels=_renaming(label))
    ensemble = TaggerEnsemble([WordTagger.from_pretrained(name, device=device) for name in model])
    check_types(ensemble.scheme.types, right)
    scores = {"words": evaluate_words(ensemble, right)}
    if right.documents:
        if len(model) == 1:
            scores["characters"] = evaluate_documents(EntityTagger(*ensemble.models), right)
        else:
            say("an ensemble is scored over words only")
        _say_remarks(right)
    for unit, found in scores.items():
        stdout.print(_score_table(found, unit))
    report = {unit: found.to_dict() for unit, found in scores.items()}
    result: dict[str, object] = {"gold": right.name, "texts": len(right.texts), **report}
    if train:
        shared = len(right.texts) - len(without(right.texts, read_gold(train).texts))
        result["shared_with_train"] = shared
        say(f"{shared} of {len(right.texts)} texts are also in {train.name}")
    if json:
        write_json(result, json)


def _renaming(pairs: list[str] | None) -> dict[str, str]:
    if wrong := [pair for pair in pairs or [] if "=" not in pair]:
        msg = f"--label: expected OLD=NEW, got {wrong[0]!r}"
        raise UserError(msg)
    return dict(pair.split("=", maxsplit=1) for pair in pairs or [])


def _say_remarks(gold: Gold) -> None:
    if gold.remarks:
        say(f"{gold.name}: {len(gold.remarks)} spans were changed or left out to fit IOB2")


def _score_table(scores: Scores, unit: str) -> Table:
    table = Table(unit, "precision", "recall", "F1", "correct", "found", "gold")
    for score in (scores.overall, *scores.by_type):
        shares = (f"{value:.3f}" for value in (score.precision, score.recall, score.f1))
        counts = map(str, (score.correct, score.predicted, score.gold))
        table.add_row(score.kind, *shares, *counts)
    return table
