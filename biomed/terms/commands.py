"""The commands `biomed terms …`: vectors, neighbours, pictures and their quality."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from domainbert import options
from domainbert.console import one_line_errors, progress, say, stdout

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from biomed.terms.embedder import TermEmbedder
    from biomed.terms.tables import Progress

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Medical terms as vectors: embed, compare, plot, evaluate, train.",
)

LISTED = 20
Model = Annotated[
    str, typer.Option("--model", help="Shipped name, model or encoder folder, or Hub id.")
]
Column = Annotated[str, typer.Option(help="The column with the terms.")]
PoolingOption = Annotated[str | None, typer.Option("--pooling", help="mean, cls or max.")]
LayersOption = Annotated[str | None, typer.Option("--layers", help="last, mean4 or sum4.")]
VocabularyFile = Annotated[
    Path | None, typer.Option("--vocabulary", help="Your own terms; by default the shipped ones.")
]
SOURCE_HELP = "Terms: .csv, .parquet, .jsonl, or .txt with one a line."


@app.command()
@one_line_errors
def embed(
    source: Annotated[Path, typer.Argument(help=SOURCE_HELP)],
    out: Annotated[Path, typer.Option(help="Vectors: .csv, .parquet or .jsonl.")],
    model: Model = "terms",
    column: Column = "term",
    pooling: PoolingOption = None,
    layers: LayersOption = None,
    unit_norm: Annotated[bool, typer.Option("--unit-norm", help="Scale to length 1.")] = False,
) -> None:
    """Write the vector of every term of a file; each row has a status and a reason."""
    from biomed.terms.tables import embed_table
    from domainbert.tables import table_format

    table_format(out)
    embedder = _load(model, pooling=pooling, layers=layers, unit_norm=unit_norm)
    _follow(embed_table(embedder, source, out, column=column), out=out)


@app.command()
@one_line_errors
def similar(
    term: Annotated[str | None, typer.Argument(help="A term; or none, with --terms.")] = None,
    to: Annotated[str | None, typer.Option(help="Another term: print their cosine.")] = None,
    terms: Annotated[Path | None, typer.Option(help=SOURCE_HELP)] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --terms: .csv, .parquet or .jsonl.")
    ] = None,
    vocabulary: VocabularyFile = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Neighbours of each term.")] = 10,
    model: Model = "terms",
    column: Column = "term",
) -> None:
    """The nearest terms of a vocabulary to a term, or to each term of a file."""
    from biomed.terms.similarity import TermIndex
    from biomed.terms.tables import nearest_table, read_terms
    from biomed.terms.vocabulary import medical_terms
    from domainbert.tables import table_format

    if (term is None) == (terms is None) or (terms is None) != (out is None):
        raise typer.BadParameter("name a term, or a file with --terms FILE --out FILE")
    if out is not None:
        table_format(out)
    embedder = _load(model)
    if term is not None and to is not None:
        stdout.print(f"{embedder.similarity(term, to):.3f}")
        return
    known = medical_terms()["term"].tolist() if vocabulary is None else read_terms(vocabulary)
    index = TermIndex(embedder, known)
    if terms is not None and out is not None:
        _follow(nearest_table(index, embedder, terms, out, column=column, k=k), out=out)
    elif term is not None:
        table = Table("", "neighbour", "cosine")
        for row in index.nearest(term, k=k).itertuples():
            table.add_row(str(row.rank), str(row.neighbour), f"{row.similarity:.3f}")
        stdout.print(table)


@app.command()
@one_line_errors
def plot(
    out: Annotated[Path, typer.Option(help="The picture: .png, .svg or .pdf.")],
    source: Annotated[
        Path | None, typer.Argument(help=f"{SOURCE_HELP} By default the shipped vocabulary.")
    ] = None,
    model: Model = "terms",
    pca: Annotated[bool, typer.Option("--pca", help="Put PCA's picture beside it.")] = False,
    perplexity: Annotated[float | None, typer.Option(help="Of t-SNE; by default fitting.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed is another picture.")] = 0,
) -> None:
    """Draw terms by t-SNE; the coordinates are written beside the picture as .csv."""
    from biomed.plots import plot_layouts, term_layouts
    from domainbert.figures import save_figure
    from domainbert.tables import write_table

    terms, categories = _terms_and_categories(source)
    embedder = _load(model)
    layouts = term_layouts(
        terms, categories, embedder=embedder, pca=pca, perplexity=perplexity, seed=seed
    )
    for layout in layouts:
        say(layout.caption())
        suffix = ".csv" if layout.method == "tsne" else ".pca.csv"
        write_table(layout.table, out.with_suffix(suffix))
    save_figure(plot_layouts(layouts), out)
    say(f"picture in {out}, coordinates in {out.with_suffix('.csv')}")


@app.command()
@one_line_errors
def evaluate(
    out: Annotated[Path, typer.Option(help="Folder for tables and figure.")],
    model: Annotated[
        list[str] | None, typer.Option(help="As often as you like; by default the shipped two.")
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option(help="Rated pairs: UMNSRS, or three columns.")
    ] = None,
    vocabulary: VocabularyFile = None,
) -> None:
    """Measure encoders side by side: rated pairs, and clinical categories."""
    from biomed.plots import plot_comparison
    from biomed.terms.evaluation import compare_encoders, evaluate_pairs, read_rated_pairs
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
    stdout.print(_comparison_table(comparison))
    say(f"tables and figure in {out}")


@app.command()
@one_line_errors
def train(
    data: Annotated[Path, typer.Argument(help="Folder of the public data sets.")],
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    vocabulary: VocabularyFile = None,
    encoder: options.EncoderName = None,
    epochs: options.Epochs = None,
    seed: Annotated[int | None, typer.Option(help="Of order, choice and dropout.")] = None,
) -> None:
    """Train term vectors on names that mean the same; measure; write the model folder."""
    from biomed.terms.recipe import read_recipe, train_from_recipe

    options.check_training(out)
    plan = read_recipe(recipe, encoder=encoder, epochs=epochs, seed=seed)
    embedder = train_from_recipe(plan, data, vocabulary=vocabulary)
    embedder.save_pretrained(out)
    say(f"model in {out}; its card says how it was made and how good it is")


def _load(
    model: str,
    *,
    pooling: str | None = None,
    layers: str | None = None,
    unit_norm: bool | None = None,
) -> TermEmbedder:
    from biomed.terms.embedder import TermEmbedder

    return TermEmbedder.from_pretrained(
        model,
        pooling=pooling,  # type: ignore[arg-type]  # checked there
        layers=layers,  # type: ignore[arg-type]
        unit_norm=unit_norm or None,
    )


def _follow(pieces: Iterable[Progress], *, out: Path) -> None:
    """A bar while a file is written, then what became of its rows."""
    rows, rejects = 0, list[int]()
    with progress("embedding terms") as advance:
        for piece in pieces:
            advance(piece.rows)
            rows += piece.rows
            rejects += piece.rejects
    if rejects:
        shown = ", ".join(map(str, rejects[:LISTED])) + (", …" if len(rejects) > LISTED else "")
        say(f"{len(rejects)} rows without a vector, their status says why: row {shown} (from 0)")
    say(f"{rows} rows, {rows - len(rejects)} with a vector; written to {out}")


def _terms_and_categories(source: Path | None) -> tuple[list[str], list[str] | None]:
    from biomed.terms.tables import read_terms
    from biomed.terms.vocabulary import medical_terms
    from domainbert.tables import TableError, read_table, table_columns

    if source is None:
        shipped = medical_terms()
        return shipped["term"].tolist(), shipped["category"].tolist()
    if source.suffix.lower() == ".txt" or "category" not in table_columns(source):
        return read_terms(source), None
    table = read_table(source, columns=["term", "category"])
    if table.isna().any(axis=None):
        msg = f"{source.name}: {int(table.isna().any(axis=1).sum())} rows lack a term or a category"
        raise TableError(msg)
    return table["term"].tolist(), table["category"].astype(str).tolist()


def _comparison_table(comparison: pd.DataFrame) -> Table:
    encoders = list(dict.fromkeys(comparison["encoder"]))
    table = Table("", *map(str, encoders))
    for measure, rows in comparison.groupby("measure", sort=False):
        by_encoder = rows.set_index("encoder")
        cells = (by_encoder.loc[encoder] for encoder in encoders)
        table.add_row(str(measure), *(f"{c.value:.3f} [{c.low:.3f}, {c.high:.3f}]" for c in cells))
    return table
