"""The commands of `biomed ner`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from biomed.folder import spell
from biomed.ner import dictionary_commands
from domainbert import options
from domainbert.console import counted, one_line_errors, say, stdout
from domainbert.errors import UserError
from domainbert.files import check_output, write_json

if TYPE_CHECKING:
    from biomed.corpora import Gold
    from biomed.corpora.notes import Side

app = typer.Typer(
    no_args_is_help=True, help="Find diseases and drugs in text of any length, with positions."
)

Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="Rename an entity type: OLD=NEW; OLD= drops it. Repeatable."),
]
Models = Annotated[
    list[str],
    typer.Option("--model", help="Shipped name, model folder, or hub:owner/name; may be repeated."),
]
OutputNames = Annotated[
    str | None,
    typer.Option(
        help="The network's outputs in order, such as O,B-Disease,I-Disease, if its config.json "
        "does not name them; a scheme in front (iob1:, iobes:, raw:) says how to read them."
    ),
]


@app.command()
@one_line_errors
def train(
    corpora: Annotated[
        list[Path],
        typer.Argument(metavar="CORPUS...", help="Folders with train, devel and optionally test."),
    ],
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    encoder: options.EncoderName = None,
    epochs: options.Epochs = None,
    learning_rate: options.LearningRate = None,
    seed: Annotated[
        list[int] | None, typer.Option(help="May be repeated: the best run on devel is kept.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs in parallel, each with its share of the cores.")
    ] = 1,
    label: Labels = None,
    full: options.FullWeights = False,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
) -> None:
    """Train on corpora in IOB2, PubTator or BRAT; devel chooses the weights, test measures them."""
    from biomed.ner.training import EntityRecipe, fit_seeds, read_corpora
    from domainbert.training.recipes import read_recipe
    from domainbert.training.session import training_run

    overrides = {
        "model.encoder": encoder,
        "training.epochs": epochs,
        "training.learning_rate": learning_rate,
        "training.full": full or None,
    }
    plan = read_recipe(EntityRecipe, recipe, overrides)
    with training_run(out, checkpoints, resume=resume) as run:
        read = read_corpora(plan, corpora, labels=_renaming(label))
        for corpus in read:
            for gold in corpus.sides.values():
                _say_remarks(gold)
        seeds = seed or [plan.training.seed]
        models = fit_seeds(
            read, plan, seeds=seeds, checkpoints=run.checkpoints, resume=resume, jobs=jobs
        )
        if jobs > 1:
            models = counted(models, what="seeds", total=len(seeds))
        for model in models:
            run.save(model)
            trained = model.manifest["seeds"][-1]
            scores = [
                f"{name} {s} {f1:.3f}" for s in ("devel", "test") for name, f1 in trained[s].items()
            ]
            say(f"seed {trained['seed']}: F1 {', '.join(scores)}")
    say(f"model in {out}; README.md there has its data and scores")


@app.command()
@one_line_errors
def generate(
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="The corpus folder to write.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Public data with MedQuAD and ICD-9 titles, for many more names."),
    ] = None,
    texts: Annotated[int, typer.Option(min=1, help="Number of notes for training.")] = 12_000,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
) -> None:
    """Write a corpus of made-up notes: templates, filled with names of diseases and drugs."""
    from biomed.ner.generate import write_notes

    train, devel = write_notes(out, data=data, texts=texts, seed=seed)
    say(f"{out}: {train} texts for training and {devel} for devel, with names of its own")


@app.command()
@one_line_errors
def tag(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help=".csv, .tsv, .jsonl, .txt (also .gz), .parquet; a folder or a 'pattern' of them; "
            "a database (postgresql://, sqlite:///) with --query; or - for a text on stdin.",
        ),
    ],
    model: Models,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A table (.csv, .parquet, .jsonl) or folder; without it, marked texts are shown."
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Instead of a table: json (lines), pubtator, or brat (a new folder, with --out).",
        ),
    ] = None,
    text: options.TextColumn = None,
    keep: options.Keep = None,
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out entities with a lower score.")
    ] = 0.0,
    dictionary: Annotated[
        Path | None,
        typer.Option(help="A table with the columns name and id; entities get the concept's id."),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Link by name only, not by vectors.")
    ] = False,
    labels: OutputNames = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    device: options.Device = None,
    restart: options.Restart = False,
    metrics: options.Metrics = None,
) -> None:
    """Find the entities of each text; write a table with a row per entity, or show marked texts."""
    from biomed.ner.linking import EntityLinker
    from biomed.ner.reports import Output, tag_source
    from biomed.ner.tagger import EntityTagger
    from domainbert.tables import ReadOptions

    def load() -> EntityTagger:
        link = {"model": None} if exact else {}
        linker = EntityLinker.from_table(dictionary, **link) if dictionary else None
        return EntityTagger.from_pretrained(
            *model, min_score=min_score, linker=linker, labels=labels, device=device
        )

    read = ReadOptions(delimiter=delimiter, encoding=encoding, query=query)
    output = Output(out, form, keep=tuple(keep or ()), restart=restart, metrics=metrics)
    tag_source(load, source, output, text=text, options=read)


@app.command()
@one_line_errors
def evaluate(
    gold: Annotated[
        Path,
        typer.Argument(
            metavar="GOLD",
            help="An IOB2, PubTator or .jsonl file, a BRAT folder, or notes for the notes corpus.",
        ),
    ],
    model: Models,
    train: Annotated[
        Path | None, typer.Option(help="Count the texts of GOLD that are also in this corpus.")
    ] = None,
    label: Labels = None,
    labels: OutputNames = None,
    side: Annotated[
        str | None, typer.Option(help="Side of the notes corpus: dev or test; by default both.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Also write the scores to this file.")] = None,
    device: options.Device = None,
) -> None:
    """Score a model by strict IOB2 over words, and count its errors by kind.

    Documents are also scored by exact character spans. Several models are scored as an ensemble.
    On the notes corpus they are used together, and the assertions and two lists of names are
    scored too.
    """
    from biomed.corpora import read_gold, without
    from biomed.ner import evaluation
    from biomed.ner.network import WordTagger
    from biomed.ner.reports import note_report, print_errors, print_scores
    from biomed.ner.tagger import EntityTagger

    renaming = _renaming(label)
    if json:
        check_output(json, [gold, *([train] if train else [])])
    if str(gold) == "notes" and not gold.exists():
        tagger = EntityTagger.from_pretrained(*model, labels=labels, device=device)
        result = note_report(tagger, side=side, labels=renaming)
        if json:
            write_json(result, json)
        return
    right = read_gold(gold, labels=renaming)
    models = [WordTagger.from_pretrained(name, labels=labels, device=device) for name in model]
    ensemble = evaluation.TaggerEnsemble(models)
    evaluation.check_types(ensemble.scheme.types, right)
    scores = {"words": evaluation.evaluate_words(ensemble, right)}
    if right.documents:
        if len(models) == 1:
            scores["characters"] = evaluation.evaluate_documents(EntityTagger(*models), right)
        else:
            say("an ensemble is scored over words only")
        _say_remarks(right)
    result = {"gold": right.name, "texts": len(right.texts)}
    for unit, found in scores.items():
        result[unit] = found.to_dict()
        print_scores(unit, found)
    result["errors"] = scores["words"].errors
    print_errors(scores["words"].errors)
    if train:
        shared = len(right.texts) - len(without(right.texts, read_gold(train).texts))
        result["shared_with_train"] = shared
        say(f"{shared} of {len(right.texts)} texts are also in {train.name}")
    if json:
        write_json(result, json)


@app.command()
@one_line_errors
def calibrate(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Shipped name or model folder.")],
    golds: Annotated[
        list[Path],
        typer.Argument(
            metavar="GOLD...", help="Devel sides, never a test side; or notes for the notes corpus."
        ),
    ],
    test: Annotated[
        list[Path] | None,
        typer.Option(help="A test side, whose scores go to the card; may be repeated."),
    ] = None,
    texts: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of texts of each GOLD, evenly spread.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the calibrated model to this folder.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the reliability diagram (.png, .svg, .pdf).")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Also write the numbers to this file.")] = None,
) -> None:
    """Calibrate an entity model's scores, and show the calibration error before and after."""
    from biomed.ner import calibration
    from biomed.ner.network import WordTagger
    from domainbert.calibration import plot_reliability

    for path in filter(None, (figure, json)):
        check_output(path, [*golds, *(test or [])])
    model = WordTagger.from_pretrained(name)
    devel = [_side(path, "dev").thinned(texts) for path in golds]
    measured = [_side(path, "test") for path in test or []]
    numbers, curves = calibration.calibrate(model, devel, measured)
    table = Table("expected calibration error", "entities", "right", "before", "after")
    for side, found in numbers["sides"].items():
        table.add_row(side, *map(spell, found.values()))
    stdout.print(table)
    if figure:
        plot_reliability(curves, figure)
    if json:
        write_json({"maps": model.settings.calibration, **numbers}, json)
    if out:
        model.save_pretrained(out)
        say(f"calibrated model in {out}")


app.command()(dictionary_commands.dictionary)
app.command()(dictionary_commands.links)


def _side(path: Path, side: Side) -> Gold:
    """A gold standard, named after its folder and file; "notes" is a side of the notes corpus."""
    from biomed.corpora import read_gold
    from biomed.corpora.notes import notes_gold

    if str(path) == "notes" and not path.exists():
        return replace(notes_gold(side), name=f"hand-tagged notes {side}")
    return replace(read_gold(path), name=f"{path.resolve().parent.name} {path.stem}")


def _renaming(pairs: list[str] | None) -> dict[str, str]:
    if wrong := [pair for pair in pairs or [] if "=" not in pair]:
        msg = f"--label: expected OLD=NEW, got {wrong[0]!r}"
        raise UserError(msg)
    return dict(pair.split("=", maxsplit=1) for pair in pairs or [])


def _say_remarks(gold: Gold) -> None:
    if gold.remarks:
        say(f"{gold.name}: {len(gold.remarks)} spans were changed or left out to fit IOB2")
