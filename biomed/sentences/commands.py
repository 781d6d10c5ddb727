"""The commands `biomed sentences`: train, distill, encode, index, search, rerank, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from domainbert import options
from domainbert.console import one_line_errors, say, stdout

if TYPE_CHECKING:
    from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
    from biomed.sentences.search import Passage
    from biomed.terms.evaluation import Interval

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Sentences and passages: vectors, search, reranking and training.",
)

DEFAULT = "all-MiniLM-L6-v2"
Model = Annotated[
    str, typer.Option("--model", help="Shipped name, model or encoder folder, or hub:owner/name.")
]
Cross = Annotated[str | None, typer.Option("--rerank", help="A cross-encoder that reorders.")]
PAIRS_HELP = "A table (first, second, score or label), an STS benchmark .tsv, or PubMedQA .json."
IdColumn = Annotated[str | None, typer.Option("--id", help="The column with the texts' ids.")]


@app.command()
@one_line_errors
def train(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help=PAIRS_HELP)],
    validation: Annotated[
        Path, typer.Option(help="Pairs that choose the weights, in the same formats.")
    ],
    out: options.ModelFolder,
    recipe: Annotated[
        str | None,
        typer.Option(help="A shipped recipe's name or a TOML file; options override it."),
    ] = None,
    kind: Annotated[str | None, typer.Option(help="bi-encoder or cross-encoder.")] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="contrastive, regression, classification or triplet."),
    ] = None,
    pooling: Annotated[str | None, typer.Option(help="mean, cls or max.")] = None,
    scale: Annotated[float | None, typer.Option(help="The largest score, such as 5.")] = None,
    encoder: options.EncoderName = None,
    epochs: options.Epochs = None,
    learning_rate: options.LearningRate = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices.")] = None,
) -> None:
    """Train a bi-encoder or a cross-encoder on pairs or triplets, and write the model folder."""
    from biomed.sentences.data import read_examples
    from biomed.sentences.training import SentenceRecipe, train_from_recipe
    from domainbert.training.recipes import read_recipe
    from domainbert.training.session import training_run

    changes = {
        "model.kind": kind,
        "model.objective": objective,
        "model.pooling": pooling,
        "model.encoder": encoder,
        "data.scale": scale,
        "training.epochs": epochs,
        "training.learning_rate": learning_rate,
        "training.seed": seed,
    }
    plan = read_recipe(SentenceRecipe, recipe, changes)
    with training_run(out) as run:
        trained = train_from_recipe(plan, read_examples(pairs), read_examples(validation))
        run.save(trained)
    best = ", ".join(f"{k} {v:.4f}" for k, v in trained.manifest["validation"].items())
    say(f"validation: {best}; model in {out}")


@app.command()
@one_line_errors
def distill(
    out: options.ModelFolder,
    sentences: Annotated[
        Path | None, typer.Argument(help=f"A .txt of lines, or pairs. {PAIRS_HELP}")
    ] = None,
    language: Annotated[
        Path | None, typer.Option(help="The translation of each sentence, in the same order.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Layers that the student keeps.")] = None,
    static: Annotated[
        bool, typer.Option("--static", help="A vector per word piece; needs no SENTENCES.")
    ] = False,
    student: Annotated[
        str | None, typer.Option(help="What to start from, if not the teacher itself.")
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="A shipped name or a TOML file.")] = None,
    teacher: options.EncoderName = None,
    epochs: options.Epochs = None,
    learning_rate: options.LearningRate = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices.")] = None,
) -> None:
    """Train a student for another language, or a smaller one, to give a teacher's vectors."""
    from biomed.sentences.bitext import read_sentences, read_translations
    from biomed.sentences.distill import (
        DistillRecipe,
        check_absent,
        distill_static,
        save_static,
    )
    from biomed.sentences.distill import distill as fit
    from domainbert.errors import UserError
    from domainbert.training.recipes import read_recipe
    from domainbert.training.session import training_run

    changes = {
        "model.layers": layers,
        "model.encoder": teacher,
        "training.epochs": epochs,
        "training.learning_rate": learning_rate,
        "training.seed": seed,
    }
    if static:
        check_absent(out)
        save_static(distill_static(teacher or DEFAULT), out)
        say(f"a sentence-transformers model in {out}")
        return
    if sentences is None:
        raise UserError("name SENTENCES to learn from, or use --static")
    shipped = "distill-language" if language else "distill-small"
    plan = read_recipe(DistillRecipe, recipe or shipped, changes)
    with training_run(out) as run:
        if language:
            own, translated = read_translations(sentences, language)
        else:
            own, translated = list(dict.fromkeys(filter(None, read_sentences(sentences)))), None
        start = _encoder(student) if student else None
        trained = fit(plan, own, translations=translated, student=start)
        run.save(trained)
    best = ", ".join(f"{k} {v:.4f}" for k, v in trained.manifest["validation"].items())
    say(f"validation: {best}; model in {out}")


@app.command()
@one_line_errors
def mine(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help=PAIRS_HELP)],
    out: options.Table,
    model: Model = DEFAULT,
    count: Annotated[int, typer.Option(help="Negatives of a pair at most.")] = 1,
    among: Annotated[int, typer.Option(help="Nearest texts to choose from.")] = 50,
    margin: Annotated[
        float, typer.Option(help="How far a negative's cosine is below the pair's.")
    ] = 0.05,
) -> None:
    """Write triplets: each pair with the nearest texts that are not right for its query."""
    import pandas as pd

    from biomed.sentences.data import read_examples
    from biomed.sentences.negatives import mine_negatives
    from domainbert.tables import write_table

    given = read_examples(pairs)
    found = mine_negatives(given, _encoder(model), count=count, among=among, margin=margin)
    columns = {"anchor": found.first, "positive": found.second, "negative": found.third}
    write_table(pd.DataFrame(columns), out)
    say(f"{len(found):,} triplets of {len(given):,} pairs in {out}")


@app.command()
@one_line_errors
def bitext(
    sentences: Annotated[Path, typer.Argument(metavar="SENTENCES", help="See `distill`.")],
    translations: Annotated[Path, typer.Argument(metavar="TRANSLATIONS", help="Of each line.")],
    model: Annotated[list[str], typer.Option("--model", help="May be repeated.")],
    seen: Annotated[
        list[Path] | None,
        typer.Option(help="Sentences of training, either language; pairs with one are left out."),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs to choose at random.")] = 1500,
    seed: Annotated[int, typer.Option(help="Seed of the choice.")] = 0,
) -> None:
    """Measure how often a sentence's nearest translation is its own."""
    from biomed.sentences.bitext import evaluate_bitext, read_sentences, unseen_translations

    known = [text for file in seen or () for text in read_sentences(file)]
    own, translated = unseen_translations(
        sentences, translations, seen=known, pairs=pairs, seed=seed
    )
    table = Table("", f"bitext accuracy among {len(own):,}")
    for name in model:
        table.add_row(name, str(evaluate_bitext(_encoder(name), own, translated)))
    stdout.print(table)


@app.command()
@one_line_errors
def encode(
    source: options.Source,
    out: options.Table,
    model: Model = DEFAULT,
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
        lambda: EncodeTask(_encoder(model)),
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
    model: Model = DEFAULT,
    text: options.TextColumn = None,
    id_column: IdColumn = None,
    window: Annotated[int | None, typer.Option(help="Maximum tokens of a passage.")] = None,
    storage: Annotated[str, typer.Option(help="float32, float16 or int8.")] = "float32",
) -> None:
    """Cut texts into passages and index their vectors in a folder."""
    from biomed.sentences.search import SentenceIndex
    from biomed.sentences.tables import read_texts

    texts, ids = read_texts(source, text=text, identifier=id_column)
    encoder = _encoder(model)
    if (out / "index.json").is_file():
        built = SentenceIndex.open(out, encoder)
    else:
        built = SentenceIndex.build([], encoder, folder=out, window=window, storage=storage)  # type: ignore[arg-type]
    faults = built.add(texts, ids=ids)
    if faults:
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
    model: Model = DEFAULT,
    rerank: Cross = None,
    words: Annotated[bool, typer.Option("--words", help="Combine with BM25.")] = False,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages per query.")] = 10,
    restart: options.Restart = False,
) -> None:
    """Search an index by meaning: one query, or every query of a table."""
    from biomed.sentences.search import SentenceIndex
    from biomed.sentences.tables import SearchTask
    from domainbert.scoring.cli import run

    def load() -> SearchTask:
        built = SentenceIndex.open(index_folder, _encoder(model))
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
        list[str] | None, typer.Option(help="May be repeated; by default the plain encoder.")
    ] = None,
    sts: Annotated[Path | None, typer.Option(help=f"Rated pairs. {PAIRS_HELP}")] = None,
    scale: Annotated[float, typer.Option(help="The largest score of --sts.")] = 5.0,
    retrieval: Annotated[Path | None, typer.Option(help="Queries and their texts.")] = None,
    rerank: Cross = None,
    words: Annotated[
        bool, typer.Option("--words", help="Also measure BM25, alone and combined.")
    ] = False,
) -> None:
    """Measure models side by side: rated pairs, and retrieval."""
    from biomed.plots import plot_comparison
    from biomed.sentences.data import read_examples
    from biomed.sentences.evaluation import compare, evaluate_retrieval, evaluate_sts
    from domainbert.errors import UserError
    from domainbert.figures import save_figure
    from domainbert.tables import write_table

    if sts is None and retrieval is None:
        raise UserError("nothing to measure: name --sts PAIRS or --retrieval PAIRS")
    rated = read_examples(sts) if sts else None
    asked = read_examples(retrieval) if retrieval else None
    cross = _cross(rerank) if rerank else None
    rows: dict[str, dict[str, Interval]] = {}
    for name in model or (DEFAULT,):
        encoder = _encoder(name)
        rows[name] = evaluate_sts(encoder, rated, scale=scale) if rated else {}
        if asked:
            ways = evaluate_retrieval(encoder, asked, rerank=cross, with_words=words)
            rows[name] |= ways.pop("meaning").scores
            if "words" in ways:
                rows["BM25"] = ways.pop("words").scores
            rows |= {f"{name}, {way}": found.scores for way, found in ways.items()}
    if rated and cross:
        rows[str(rerank)] = evaluate_sts(cross, rated, scale=scale)
    comparison = compare(rows)
    out.mkdir(parents=True, exist_ok=True)
    write_table(comparison, out / "comparison.csv")
    save_figure(plot_comparison(comparison), out / "comparison.png")
    table = Table("", *rows)
    for measure in dict.fromkeys(comparison["measure"]):
        cells = [str(own[measure]) if measure in own else "" for own in rows.values()]
        table.add_row(measure, *cells)
    stdout.print(table)
    say(f"table and figure in {out}")


def _encoder(model: str) -> SentenceEncoder:
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
