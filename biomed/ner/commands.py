"""The commands `biomed ner`: train, tag, silver, evaluate, compare."""

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
    from biomed.ner.evaluation import Scores
    from biomed.ner.tagger import EntityTagger

app = typer.Typer(
    no_args_is_help=True,
    help="Disease and drug entities: text of any length -> exact spans.",
)


@app.command()
@one_line_errors
def train(
    corpora: Annotated[
        list[Path],
        typer.Argument(
            metavar="CORPUS...",
            help="Folders with train, devel and perhaps test: IOB2, PubTator or BRAT.",
        ),
    ],
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    encoder: options.EncoderName = None,
    epochs: options.Epochs = None,
    learning_rate: options.LearningRate = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(help="Give it several times: the best on devel is kept, all are reported."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Seeds trained side by side, each on its share of the cores.")
    ] = 1,
    full: options.FullWeights = False,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
) -> None:
    """Train on corpora together, choose on devel, measure on test, write the model folder."""
    from biomed.ner.recipe import read_corpora, read_recipe, train_seeds

    options.check_training(out, checkpoints=checkpoints, resume=resume)
    plan = read_recipe(
        recipe, encoder=encoder, epochs=epochs, learning_rate=learning_rate, full=full or None
    )
    read = read_corpora(plan, corpora)
    for corpus in read:
        for gold in (corpus.train, corpus.devel, corpus.test):
            if gold and gold.remarks:
                say(
                    f"{corpus.name}, {gold.name}: {len(gold.remarks)} spans not taken as they stand"
                )
    seeds = seed or [plan.training.seed]
    models = train_seeds(plan, read, seeds=seeds, checkpoints=checkpoints, resume=resume, jobs=jobs)
    if jobs > 1:
        models = counted(models, what="seeds", total=len(seeds))
    for model in models:
        model.save_pretrained(out)
        run = model.manifest["seeds"][-1]
        shown = ", ".join(
            f"{name} {side} {f1:.3f}"
            for side in ("devel", "test")
            for name, f1 in run[side].items()
        )
        say(f"seed {run['seed']}: F1 {shown}")
    say(f"model in {out}; its card says how it was made and how good it is")


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
def silver(
    texts: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="One text a line (.txt, .txt.gz), or .csv, .parquet, .jsonl with a column text; "
            "or a folder of them.",
        ),
    ],
    model: Annotated[
        list[str],
        typer.Option(help="Shipped name or model folder; several of one kind tag together."),
    ],
    out: Annotated[Path, typer.Option(help="The corpus folder, to train on with others.")],
    share: Annotated[float, typer.Option(help="Of the texts, evenly spread.")] = 1.0,
) -> None:
    """Tag texts as a corpus that another model can learn from: out/train.tsv, in IOB2."""
    from biomed.corpora.iob2 import write_iob2
    from biomed.ner.ensemble import TaggerEnsemble
    from biomed.ner.network import WordTagger
    from biomed.ner.silver import read_lines, silver_texts

    if out.exists():
        msg = f"{out} is there already, and may hold a corpus; choose another name"
        raise UserError(msg)
    lines = read_lines(texts, share=share)
    ensemble = TaggerEnsemble([WordTagger.from_pretrained(name) for name in model])
    tagged = silver_texts(ensemble, lines)
    out.mkdir(parents=True)
    write_iob2(counted(tagged, what="tagging texts"), out / "train.tsv")
    say(f"{out / 'train.tsv'} is a corpus without devel: name {out} beside one that has it")


@app.command()
@one_line_errors
def evaluate(
    gold: Annotated[
        Path, typer.Argument(metavar="GOLD", help="An IOB2 or PubTator file, or a BRAT folder.")
    ],
    model: Annotated[
        list[str],
        typer.Option(
            help="Shipped name, folder or Hub id; several are scored as one ensemble, over words."
        ),
    ],
    train: Annotated[
        Path | None, typer.Option(help="Count the texts of GOLD that also stand in this corpus.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Rename an entity type: OLD=NEW; OLD= drops it.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the scores here too.")] = None,
) -> None:
    """Score a model: strict IOB2 over words, and for documents exact spans of characters too."""
    from biomed.corpora import read_gold, without
    from biomed.ner.ensemble import TaggerEnsemble
    from biomed.ner.evaluation import check_types, evaluate_documents, evaluate_words
    from biomed.ner.network import WordTagger
    from biomed.ner.tagger import EntityTagger

    right = read_gold(gold, labels=_renaming(label or []))
    ensemble = TaggerEnsemble([WordTagger.from_pretrained(name) for name in model])
    check_types(ensemble.scheme.types, right)
    scores = {"words": evaluate_words(ensemble, right)}
    if right.documents:
        if len(model) == 1:
            scores["characters"] = evaluate_documents(EntityTagger(*ensemble.models), right)
        else:
            say("an ensemble decides over words: there are no scores over characters")
        say(f"{len(right.remarks)} gold spans not taken as they stand")
    for unit, found in scores.items():
        stdout.print(_score_table(found, unit))
    report = {unit: found.to_dict() for unit, found in scores.items()}
    result: dict[str, object] = {"gold": right.name, "texts": len(right.texts), **report}
    if train:
        shared = len(right.texts) - len(without(right.texts, read_gold(train).texts))
        result["shared_with_train"] = shared
        say(f"{shared} of {len(right.texts)} texts also stand in {train.name}")
    if json:
        write_json(result, json)


@app.command()
@one_line_errors
def compare(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="Folders that `train` wrote.")
    ],
) -> None:
    """What a change bought: the settings in which trained models differ, and their F1; Markdown."""
    from biomed.ner.comparison import compare as compare_models
    from domainbert.markdown import table

    found = compare_models(models)
    typer.echo(table(list(found), found.to_numpy()))


def _renaming(pairs: list[str]) -> dict[str, str]:
    if wrong := [pair for pair in pairs if "=" not in pair]:
        msg = f"--label takes OLD=NEW, got {wrong[0]!r}"
        raise UserError(msg)
    return dict(pair.split("=", maxsplit=1) for pair in pairs)


def _score_table(scores: Scores, unit: str) -> Table:
    table = Table(unit, "precision", "recall", "F1", "correct", "found", "gold")
    for score in (scores.overall, *scores.by_type):
        shares = (f"{value:.3f}" for value in (score.precision, score.recall, score.f1))
        counts = map(str, (score.correct, score.predicted, score.gold))
        table.add_row(score.kind, *shares, *counts)
    return table
