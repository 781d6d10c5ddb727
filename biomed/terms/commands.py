"""The commands `biomed terms`: vectors, neighbours, pictures and their quality."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from domainbert import options
from domainbert.console import one_line_errors, say, stdout

if TYPE_CHECKING:
    import pandas as pd

    from biomed.terms.embedder import TermEmbedder
    from biomed.terms.similarity import TermIndex

app = typer.Typer(
    no_args_is_help=True,
    help="Medical terms as vectors: embed, compare, plot, evaluate, train.",
)

TermColumn = Annotated[str | None, typer.Option("--term", help="The column with the terms.")]
PoolingOption = Annotated[str | None, typer.Option("--pooling", help="mean, cls or max.")]
LayersOption = Annotated[str | None, typer.Option("--layers", help="last, mean4 or sum4.")]
VocabularyFile = Annotated[
    Path | None, typer.Option("--vocabulary", help="Your own terms; by default the shipped ones.")
]
SOURCE_HELP = "Terms: a table with a column `term`, or .txt with one on each line."


@app.command()
@one_line_errors
def embed(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)],
    out: options.Table,
    model: options.EncoderModel = "terms",
    term: TermColumn = None,
    pooling: PoolingOption = None,
    layers: LayersOption = None,
    unit_norm: Annotated[bool, typer.Option("--unit-norm", help="Scale to length 1.")] = False,
    keep: options.Keep = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    restart: options.Restart = False,
    metrics: options.Metrics = None,
) -> None:
    """Write the vector of every term of a file; each row has a status and a reason."""
    from biomed.terms.tables import EmbedTask, read_options
    from domainbert.scoring.cli import run

    chosen = {"pooling": pooling, "layers": layers, "unit_norm": unit_norm or None}
    run(
        lambda: EmbedTask(_load(model, **chosen)),
        source,
        out,
        named={"term": term},
        keep=keep or (),
        options=read_options(source, delimiter=delimiter, encoding=encoding),
        restart=restart,
        metrics=metrics,
    )


@app.command()
@one_line_errors
def similar(
    term: Annotated[str | None, typer.Argument(help="A term; or none, with --terms.")] = None,
    to: Annotated[str | None, typer.Option(help="Another term: print their cosine.")] = None,
    context: Annotated[
        str, typer.Option(help="A sentence with TERM: decides what an abbreviation stands for.")
    ] = "",
    terms: Annotated[str | None, typer.Option(help=SOURCE_HELP)] = None,
    out: Annotated[Path | None, typer.Option(help="With --terms: the table to write.")] = None,
    vocabulary: VocabularyFile = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours per term.")] = 10,
    model: options.EncoderModel = "terms",
    keep: options.Keep = None,
    restart: options.Restart = False,
) -> None:
    """Find the terms of a vocabulary that are nearest to a term, or to each term of a file.

    Terms with the same name or a synonym come first, then the others by cosine. An abbreviation is
    read as what it stands for; if it has several meanings, each gets its own neighbours.
    """
    from biomed.terms.similarity import TermIndex
    from biomed.terms.tables import NearestTask, read_options, read_terms

    if (term is None) == (terms is None) or (terms is None) != (out is None):
        raise typer.BadParameter("name a term, or a file with --terms FILE --out FILE")
    if terms is not None and (to or context):
        raise typer.BadParameter("--to and --context are for one term; a file has a column context")

    def load_index() -> TermIndex:
        return TermIndex(_load(model), None if vocabulary is None else read_terms(vocabulary))

    if terms is not None and out is not None:
        from domainbert.files import check_output
        from domainbert.scoring.cli import run

        check_output(out, [vocabulary] if vocabulary else [])
        run(
            lambda: NearestTask(load_index(), k=k),
            terms,
            out,
            keep=keep or (),
            options=read_options(terms),
            restart=restart,
        )
    elif term is not None:
        _show_similar(load_index(), term, to, context=context, k=k)


@app.command()
@one_line_errors
def plot(
    out: Annotated[Path, typer.Option(help="The picture: .png, .svg or .pdf.")],
    source: Annotated[
        Path | None, typer.Argument(help=f"{SOURCE_HELP} By default the shipped vocabulary.")
    ] = None,
    model: options.EncoderModel = "terms",
    pca: Annotated[bool, typer.Option("--pca", help="Add a PCA picture.")] = False,
    perplexity: Annotated[float | None, typer.Option(help="Perplexity of t-SNE.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives another picture.")] = 0,
) -> None:
    """Draw terms by t-SNE; NAME.coordinates.csv gets the table with their coordinates."""
    from biomed.plots import plot_layouts, term_layouts
    from biomed.terms.tables import read_terms
    from biomed.terms.vocabulary import medical_terms
    from domainbert.figures import save_figure
    from domainbert.files import check_output
    from domainbert.tables import write_table

    coordinates = out.with_suffix(".coordinates.csv")
    for file in (out, coordinates, out.with_suffix(".pca-coordinates.csv")):
        check_output(file, [source] if source else [])
    table = (
        read_terms(source, with_categories=True)
        if source
        else medical_terms()[["term", "category"]]
    )
    layouts = term_layouts(
        table["term"],
        table.get("category"),
        embedder=_load(model),
        pca=pca,
        perplexity=perplexity,
        seed=seed,
    )
    table = table.rename(columns={"x": "x (input)", "y": "y (input)"})
    for number, layout in enumerate(layouts):
        say(layout.caption())
        file = out.with_suffix(".pca-coordinates.csv") if number else coordinates
        write_table(table.assign(**layout.table[["x", "y"]]), file)
    save_figure(plot_layouts(layouts), out)
    say(f"picture in {out}, coordinates in {coordinates}")


@app.command()
@one_line_errors
def evaluate(
    out: Annotated[Path, typer.Option(help="Folder for tables and figure.")],
    model: Annotated[
        list[str] | None, typer.Option(help="May be repeated; by default the two shipped ones.")
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option(help="Rated pairs: UMNSRS, or three columns.")
    ] = None,
    vocabulary: VocabularyFile = None,
) -> None:
    """Compare encoders: rated pairs, clinical categories, and synonyms."""
    from biomed.plots import plot_comparison
    from biomed.terms.evaluation import (
        compare_encoders,
        evaluate_pairs,
        evaluate_synonyms,
        read_rated_pairs,
    )
    from biomed.terms.vocabulary import medical_terms, read_vocabulary
    from domainbert.encoders import DEFAULT_ENCODER
    from domainbert.figures import save_figure
    from domainbert.tables import write_table

    rated = read_rated_pairs(pairs) if pairs else None
    terms = read_vocabulary(vocabulary) if vocabulary else medical_terms()
    embedders = [_load(name) for name in model or ("terms", DEFAULT_ENCODER)]
    out.mkdir(parents=True, exist_ok=True)
    comparison = compare_encoders(embedders, pairs=rated, vocabulary=terms)
    write_table(comparison, out / "comparison.csv")
    save_figure(plot_comparison(comparison), out / "comparison.png")
    if rated is not None:
        worst = evaluate_pairs(embedders[0], rated, bootstrap=1).worst(25)
        write_table(worst, out / "disagreements.csv")
    if terms["synonyms"].str.len().any():
        missed = evaluate_synonyms(embedders[0], terms, bootstrap=1).worst(25)
        write_table(missed, out / "synonyms.csv")
    stdout.print(_comparison_table(comparison))
    say(f"tables and figure in {out}")


@app.command()
@one_line_errors
def train(
    data: Annotated[Path, typer.Argument(help="Folder of the public data sets.")],
    out: options.ModelFolder,
    recipe: Annotated[
        str, typer.Option(help="A shipped recipe's name or a TOML file; options override it.")
    ] = "terms",
    vocabulary: VocabularyFile = None,
    encoder: options.EncoderName = None,
    epochs: options.Epochs = None,
    seed: options.Seed = None,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
) -> None:
    """Train term vectors on names that mean the same, measure them, and write the model folder."""
    from biomed.terms.training import TermRecipe, train_from_recipe
    from domainbert.training.recipes import read_recipe
    from domainbert.training.session import training_run

    changes = {"model.encoder": encoder, "training.epochs": epochs, "training.seed": seed}
    plan = read_recipe(TermRecipe, recipe, changes)
    with training_run(out, checkpoints, resume=resume) as run:
        embedder = train_from_recipe(
            plan, data, vocabulary=vocabulary, checkpoints=run.checkpoints, resume=resume
        )
        run.save(embedder)
    say(f"model in {out}; its card says how it was made and how good it is")


def _load(model: str, **chosen: Any) -> TermEmbedder:
    from biomed.terms.embedder import TermEmbedder

    return TermEmbedder.from_pretrained(model, **chosen)


def _show_similar(index: TermIndex, term: str, to: str | None, *, context: str, k: int) -> None:
    """Print the neighbours of a term, or its cosine with another; say how each was read."""
    from domainbert.embedding import check_faults

    if to is not None:
        readings = [index.read(term, context), index.read(to)]
        pairs = list(product(*(reading.texts for reading in readings)))
        for one, other in pairs:
            which = f"  {one} and {other}" if len(pairs) > 1 else ""
            stdout.print(f"{index.embedder.similarity(one, other):.3f}{which}")
        reasons = [reading.reason for reading in readings]
    else:
        found = next(iter(index.look_up([(term, context)], k=k)))
        check_faults([found.fault], first=0)
        table = Table("", "neighbour", "cosine", "match", "meaning")
        for n in found.found:
            table.add_row(str(n.rank), n.neighbour, f"{n.similarity:.3f}", n.match, n.meaning)
        stdout.print(table)
        reasons = [found.reason]
    for reason in filter(None, reasons):
        say(reason)


def _comparison_table(comparison: pd.DataFrame) -> Table:
    encoders = list(dict.fromkeys(comparison["encoder"]))
    table = Table("", *map(str, encoders))
    for measure, rows in comparison.groupby("measure", sort=False):
        by_encoder = rows.set_index("encoder")
        cells = (by_encoder.loc[encoder] for encoder in encoders)
        table.add_row(str(measure), *(f"{c.value:.3f} [{c.low:.3f}, {c.high:.3f}]" for c in cells))
    return table
