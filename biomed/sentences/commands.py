"""The commands `biomed sentences`: encode, index, search, rerank, evaluate, bitext."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from domainbert import options
from domainbert.console import one_line_errors, say, stdout

if TYPE_CHECKING:
    from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
    from biomed.sentences.search import Passage

app = typer.Typer(
    no_args_is_help=True,
    help="Sentences and passages: vectors, search, reranking and training.",
)

DEFAULT = "sentences"
Cross = Annotated[str | None, typer.Option("--rerank", help="A cross-encoder that reorders.")]
PAIRS_HELP = "A table (first, second, score or label), an STS or XNLI .tsv, or PubMedQA .json."
IdColumn = Annotated[str | None, typer.Option("--id", help="The column with the texts' ids.")]


@app.command()
@one_line_errors
def bitext(
    sentences: Annotated[Path, typer.Argument(help="Sentences, one on each line (.txt).")],
    translations: Annotated[Path, typer.Argument(help="Their translations, line by line.")],
    model: Annotated[list[str], typer.Option("--model", help="May be repeated.")],
    seen: Annotated[
        list[Path] | None,
        typer.Option(
            help="Training sentences, either language; pairs that contain one are left out."
        ),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Number of pairs, chosen at random.")] = 1500,
    seed: Annotated[int, typer.Option(help="Seed of the choice.")] = 0,
) -> None:
    """Measure how often the nearest translation of a sentence is the right one."""
    from biomed.sentences.bitext import evaluate_bitext, read_sentences, unseen_translations

    known = [text for file in seen or () for text in read_sentences(file)]
    own, translated = unseen_translations(
        sentences, translations, seen=known, pairs=pairs, seed=seed
    )
    table = Table("", f"bitext accuracy among {len(own):,}")
    for name in model:
        table.add_row(name, str(evaluate_bitext(load_encoder(name), own, translated)))
    stdout.print(table)


@app.command()
@one_line_errors
def encode(
    source: options.Source,
    out: options.Table,
    model: options.EncoderModel = DEFAULT,
    text: options.TextColumn = None,
    keep: options.Keep = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    restart: options.Restart = False,
    metrics: options.Metrics = None,
) -> None:
    """Write a vector for every text of a table; long texts are read to their end."""
    from biomed.sentences.tables import EncodeTask
    from domainbert.scoring.cli import run
    from domainbert.tables import ReadOptions

    run(
        lambda: EncodeTask(load_encoder(model)),
        source,
        out,
        named={"text": text},
        keep=keep or (),
        options=ReadOptions(delimiter=delimiter, encoding=encoding, query=query),
        restart=restart,
        metrics=metrics,
    )


@app.command()
@one_line_errors
def index(
    source: options.Source,
    out: Annotated[Path, typer.Option(help="The index folder; if it exists, texts are added.")],
    model: options.EncoderModel = DEFAULT,
    text: options.TextColumn = None,
    id_column: IdColumn = None,
    window: Annotated[int | None, typer.Option(help="Maximum tokens of a passage.")] = None,
    storage: Annotated[
        Literal["float32", "float16", "int8"] | None, typer.Option(help="By default float32.")
    ] = None,
) -> None:
    """Cut texts into passages and index their vectors in a folder."""
    from biomed.sentences.search import SentenceIndex
    from biomed.sentences.tables import read_texts

    texts, ids = read_texts(source, text=text, identifier=id_column)
    encoder = load_encoder(model)
    if (out / "index.json").is_file():
        built = SentenceIndex.open(out, encoder, window=window, storage=storage)
        built.add(texts, ids=ids)
    else:
        built = SentenceIndex.build(
            texts, encoder, ids=ids, folder=out, window=window, storage=storage or "float32"
        )
    if faults := built.faults:
        say(f"{len(faults)} texts could not be indexed; the first is {next(iter(faults))}")
    say(f"{len(built):,} passages in {out}")


@app.command()
@one_line_errors
def search(
    queries: Annotated[str, typer.Argument(metavar="QUERY", help="A query; or a table of them.")],
    index_folder: Annotated[Path, typer.Option("--index", help="From `biomed sentences index`.")],
    out: Annotated[
        Path | None, typer.Option(help="The table to write, if QUERY is a table.")
    ] = None,
    model: options.EncoderModel = DEFAULT,
    rerank: Cross = None,
    words: Annotated[bool, typer.Option("--words", help="Combine the vectors with BM25.")] = False,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages per query.")] = 10,
    restart: options.Restart = False,
) -> None:
    """Search an index by meaning: one query, or every query of a table."""
    from biomed.sentences.search import SentenceIndex
    from biomed.sentences.tables import SearchTask
    from domainbert.scoring.cli import run

    def load() -> SearchTask:
        built = SentenceIndex.open(index_folder, load_encoder(model))
        cross = _cross(rerank) if rerank else None
        return SearchTask(built, k=k, rerank=cross, words=built.words() if words else None)

    if out is not None:
        run(load, queries, out, restart=restart)
        return
    _print_passages(load().search(queries))


@app.command()
@one_line_errors
def rerank(
    source: options.Source,
    out: options.Table,
    model: options.ModelName,
    keep: options.Keep = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    restart: options.Restart = False,
    metrics: options.Metrics = None,
) -> None:
    """Score every pair of a table (query, text) with a cross-encoder."""
    from biomed.sentences.tables import PairTask
    from domainbert.scoring.cli import run
    from domainbert.tables import ReadOptions

    run(
        lambda: PairTask(_cross(model)),
        source,
        out,
        keep=keep or (),
        options=ReadOptions(delimiter=delimiter, encoding=encoding),
        restart=restart,
        metrics=metrics,
    )


@app.command()
@one_line_errors
def evaluate(
    out: Annotated[Path, typer.Option(help="Folder for the table and the figure.")],
    model: Annotated[
        list[str] | None, typer.Option(help="May be repeated; by default the model sentences.")
    ] = None,
    sts: Annotated[Path | None, typer.Option(help=f"Rated pairs. {PAIRS_HELP}")] = None,
    scale: Annotated[float, typer.Option(help="The largest score of --sts.")] = 5.0,
    retrieval: Annotated[Path | None, typer.Option(help="Queries and their texts.")] = None,
    terms: Annotated[Path | None, typer.Option(help="Rated pairs of terms.")] = None,
    clusters: Annotated[
        Path | None, typer.Option(help="A table of texts and their groups (text, label).")
    ] = None,
    rerank: Cross = None,
    words: Annotated[
        bool, typer.Option("--words", help="Also evaluate BM25, alone and combined.")
    ] = False,
) -> None:
    """Compare models: quality with 95% intervals, and texts per second."""
    from biomed.sentences import evaluation
    from biomed.sentences.data import read_examples, read_groups
    from biomed.terms.evaluation import read_rated_pairs
    from domainbert.figures import save_figure
    from domainbert.tables import write_table

    rows = evaluation.evaluate_models(
        {name: load_encoder(name) for name in model or (DEFAULT,)},
        sts=read_examples(sts) if sts else None,
        scale=scale,
        retrieval=read_examples(retrieval) if retrieval else None,
        terms=read_rated_pairs(terms) if terms else None,
        clusters=read_groups(clusters) if clusters else None,
        cross={rerank: _cross(rerank)} if rerank else None,
        with_words=words,
    )
    comparison = evaluation.compare(rows)
    out.mkdir(parents=True, exist_ok=True)
    write_table(comparison, out / "comparison.csv")
    save_figure(evaluation.plot_models(comparison), out / "comparison.png")
    table = Table("", *rows)
    for measure in dict.fromkeys(comparison["measure"]):
        cells = [str(own[measure]) if measure in own else "" for own in rows.values()]
        table.add_row(measure, *cells)
    stdout.print(table)
    say(f"table and figure in {out}")


def load_encoder(model: str) -> SentenceEncoder:
    """The sentence encoder of a name."""
    from biomed.sentences.encoder import SentenceEncoder

    return SentenceEncoder.from_pretrained(model)


def _cross(model: str) -> CrossEncoder:
    from biomed.sentences.encoder import CrossEncoder

    return CrossEncoder.from_pretrained(model)


def _print_passages(passages: list[Passage]) -> None:
    table = Table("", "id", "characters", "score", "passage")
    for p in passages:
        place = f"{p.start}–{p.end}"
        table.add_row(str(p.rank), p.id, place, f"{p.score:.3f}", " ".join(p.text.split())[:200])
    stdout.print(table)
