"""The commands `biomed sentences`: encode, index, search, rerank, evaluate and training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option, Typer

from domainbert.cli import options
from domainbert.cli.console import one_line_errors, print_table, say
from domainbert.cli.training import TrainingOptions

if TYPE_CHECKING:
    from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
    from domainbert.statistics.bootstrap import Interval

app = Typer(
    no_args_is_help=True,
    help="Sentences and passages: vectors, search, reranking and training.",
)

DEFAULT = "terms"
PAIRS_HELP = "A table (first, second, score or label), or an STS or XNLI .tsv."
Cross = Annotated[
    str | None,
    Option(
        "--rerank",
        help="Cross-encoder that reorders the passages, such as rerank.",
    ),
]
Pairs = Annotated[Path, Argument(metavar="PAIRS", help=PAIRS_HELP)]
Validation = Annotated[
    Path, Option(help="Pairs that choose the weights, in the same formats.")
]
Scale = Annotated[float | None, Option(help="The largest score, such as 5.")]


@app.command()
@one_line_errors
@options.takes_options
def encode(
    source: options.Source,
    out: options.Table,
    *,
    scoring: options.ScoringOptions,
    model: options.EncoderModel = DEFAULT,
) -> None:
    """Write a vector for every text of a table; long texts are read to their end."""
    from biomed.sentences.task import EncodeTask

    options.score_source(
        lambda: EncodeTask(_encoder(model, **scoring.loading())),
        source,
        out,
        scoring,
    )


@app.command()
@one_line_errors
def index(
    source: options.Source,
    out: Annotated[
        Path, Option(help="The index folder; if it exists, texts are added.")
    ],
    model: options.EncoderModel = DEFAULT,
    text: options.TextColumn = None,
    identifier: Annotated[
        str | None, Option("--id", help="The column with the texts' ids.")
    ] = None,
    window: Annotated[
        int | None, Option(help="Maximum tokens of a passage.")
    ] = None,
) -> None:
    """Cut texts into passages and index their vectors in a folder."""
    from biomed.sentences.search import SentenceIndex
    from biomed.sentences.task import read_texts

    texts, ids = read_texts(source, text=text, identifier=identifier)
    is_new = not (out / "index.json").is_file()
    if window and not is_new:
        raise BadParameter(
            f"{out} exists and keeps its window; leave --window out"
        )
    encoder = _encoder(model)
    if is_new:
        built = SentenceIndex.build(
            texts, encoder, ids=ids, folder=out, window=window
        )
    else:
        built = SentenceIndex.open(out, encoder)
        built.add(texts, ids=ids)
    if faults := built.faults:
        say(
            f"{len(faults)} of the texts could not be indexed; the first has the id "
            f"{next(iter(faults))}"
        )
    say(f"{len(built):,} passages in {out}")


@app.command()
@one_line_errors
@options.takes_options
def search(
    queries: Annotated[
        str, Argument(metavar="QUERY", help="A query, or a table of queries.")
    ],
    index_folder: Annotated[
        Path,
        Option(
            "--index",
            help="The folder that `biomed sentences index` has written.",
        ),
    ],
    *,
    scoring: options.ScoringOptions,
    out: Annotated[
        Path | None, Option(help="The table to write, if QUERY is a table.")
    ] = None,
    model: options.EncoderModel = DEFAULT,
    rerank: Cross = None,
    words: Annotated[
        bool, Option("--words", help="Combine the vectors with BM25.")
    ] = False,
    k: Annotated[int, Option("-k", min=1, help="Passages per query.")] = 10,
) -> None:
    """Search an index by meaning: one query, or every query of a table."""
    from biomed.sentences.search import SentenceIndex
    from biomed.sentences.task import SearchTask

    def load() -> SearchTask:
        built = SentenceIndex.open(
            index_folder, _encoder(model, **scoring.loading())
        )
        task = SearchTask(built, k=k)
        if rerank:
            task.options["rerank"] = _cross(rerank, **scoring.loading())
        if words:
            task.options["words"] = built.words()
        return task

    if out is not None:
        options.score_source(load, queries, out, scoring, text="query")
        return
    task = load()
    (passages,) = task.index.search(queries, **task.options)
    rows = []
    for hit in passages:
        position = f"{hit.start}–{hit.end}"
        shown = " ".join(hit.text.split())[:200]
        rows.append((hit.rank, hit.id, position, f"{hit.score:.3f}", shown))
    print_table(rows, ["", "id", "characters", "score", "passage"])


@app.command()
@one_line_errors
@options.takes_options
def rerank(
    source: options.Source,
    out: options.Table,
    model: options.ModelName,
    *,
    scoring: options.ScoringOptions,
) -> None:
    """Score every pair of a table (query, text) with a cross-encoder."""
    from biomed.sentences.task import PairTask

    options.score_source(
        lambda: PairTask(_cross(model, **scoring.loading())),
        source,
        out,
        scoring,
        text="second",
    )


@app.command()
@one_line_errors
def evaluate(
    out: Annotated[Path, Option(help="Folder for the table.")],
    model: Annotated[
        list[str] | None,
        Option(help="Model to compare; may be repeated; by default `terms`."),
    ] = None,
    sts: Annotated[
        Path | None, Option(help=f"Rated pairs. {PAIRS_HELP}")
    ] = None,
    retrieval: Annotated[
        Path | None,
        Option(
            help="Table of queries and their texts, or of sentences and their translations."
        ),
    ] = None,
    rerank: Cross = None,
    words: Annotated[
        bool, Option("--words", help="Also evaluate BM25, alone and combined.")
    ] = False,
) -> None:
    """Compare models on rated pairs and on retrieval, with 95% intervals."""
    from biomed.sentences.data import read_pairs
    from biomed.sentences.evaluation import evaluate_models

    pairs = {"sts": sts, "retrieval": retrieval}
    tables = {name: read_pairs(path) for name, path in pairs.items() if path}
    cross = None
    if rerank:
        cross = _cross(rerank)
    encoders = {name: _encoder(name) for name in model or (DEFAULT,)}
    scores = evaluate_models(encoders, cross=cross, with_words=words, **tables)
    write_comparison(scores, out)


def write_comparison(
    scores: Mapping[str, Mapping[str, Interval]], out: Path
) -> None:
    """Write the scores of models to `comparison.csv` in a folder, and print them by measure."""
    import pandas as pd

    from domainbert.tables import write_table

    intervals = [
        (measure, model, interval)
        for model, measures in scores.items()
        for measure, interval in measures.items()
    ]
    rows = [
        {"encoder": model, "measure": measure, **vars(interval)}
        for measure, model, interval in intervals
    ]
    out.mkdir(parents=True, exist_ok=True)
    write_table(pd.DataFrame(rows), out / "comparison.csv")
    intervals.sort(key=lambda row: row[0])
    print_table(intervals, ["measure", "model", "value"])
    say(f"table in {out}")


@app.command()
@one_line_errors
@options.takes_options
def train(
    pairs: Pairs,
    out: options.ModelFolder,
    training: TrainingOptions,
    validation: Validation,
    kind: Annotated[
        str | None, Option(help="bi-encoder or cross-encoder.")
    ] = None,
    objective: Annotated[
        str | None,
        Option(help="contrastive, regression, classification or triplet."),
    ] = None,
    scale: Scale = None,
    merged: options.Merged = False,
) -> None:
    """Train a bi-encoder or a cross-encoder on pairs or triplets, and write the model folder."""
    from biomed.sentences.data import read_pairs
    from biomed.sentences.training import SentenceRecipe, fit

    changes = {
        "model.kind": kind,
        "model.objective": objective,
        "model.scale": scale,
    }
    plan = training.plan(SentenceRecipe, changes)
    with training.run(out) as run:
        trained = fit(
            read_pairs(pairs),
            plan,
            validation=read_pairs(validation),
            checkpoints=run.checkpoints,
            resume=run.resume,
        )
        run.save(trained, merged=merged)
    say(f"validation: {_validation(trained)}; model in {out}")


@app.command()
@one_line_errors
@options.takes_options
def augment(
    pairs: Pairs,
    validation: Validation,
    out: options.ModelFolder,
    training: TrainingOptions,
    texts: Annotated[
        Path | None,
        Option(help="A table of texts to pair; by default those of PAIRS."),
    ] = None,
    silver_only: Annotated[
        bool,
        Option(
            "--silver-only",
            help="Train on silver pairs only, because PAIRS are of another domain than --texts.",
        ),
    ] = False,
    silver: Annotated[
        Path | None, Option(help="Table to write the silver pairs to.")
    ] = None,
    scale: Scale = None,
) -> None:
    """Train a bi-encoder on few rated pairs and on pairs that a cross-encoder rates."""
    from biomed.sentences import augment as augmented
    from biomed.sentences.data import read_pairs
    from biomed.sentences.task import read_texts
    from domainbert.tables import write_table

    other_texts = None
    if texts:
        other_texts = [text for text in read_texts(texts)[0] if text]
    changes = {"model.scale": scale, "cross.seed": training.seed}
    plan = training.plan(augmented.AugmentRecipe, changes, default="augmented")
    with training.run(out) as run:
        result = augmented.augment(
            plan,
            read_pairs(pairs),
            read_pairs(validation),
            texts=other_texts,
            silver_only=silver_only,
            checkpoints=run.checkpoints,
            resume=run.resume,
        )
        run.save(result.encoder)
    if silver:
        write_table(result.silver, silver)
    say(
        f"validation: {_validation(result.encoder)}; {len(result.silver):,} silver pairs; "
        f"model in {out}"
    )


@app.command()
@one_line_errors
@options.takes_options
def distill(
    out: options.ModelFolder,
    sentences: Annotated[
        Path,
        Argument(
            help=f"A .txt with a sentence on each line, or pairs. {PAIRS_HELP}"
        ),
    ],
    training: TrainingOptions,
    language: Annotated[
        Path | None,
        Option(
            help="File with the translation of each sentence, in the same order."
        ),
    ] = None,
    layers: Annotated[
        int | None, Option(help="Number of layers that the student keeps.")
    ] = None,
    student: Annotated[
        str | None,
        Option(
            help="Encoder that the student starts from; by default the teacher (--encoder)."
        ),
    ] = None,
) -> None:
    """Train a student for another language, or a smaller one, to give a teacher's vectors."""
    from biomed.sentences import distill as distilled
    from biomed.sentences.data import read_sentences, read_translations

    shipped = "distill-language" if language else "distill-small"
    plan = training.plan(
        distilled.DistillRecipe,
        {"model.layers": layers},
        default=shipped,
    )
    with training.run(out) as run:
        translations: tuple[str, ...] | None = None
        if language:
            texts, translations = zip(
                *read_translations(sentences, language),
                strict=True,
            )
        else:
            texts = tuple(
                dict.fromkeys(filter(None, read_sentences(sentences)))
            )
        trained = distilled.distill(
            plan,
            texts,
            translations=translations,
            student=student,
            checkpoints=run.checkpoints,
            resume=run.resume,
        )
        run.save(trained)
    say(f"validation: {_validation(trained)}; model in {out}")


def _encoder(model: str, **loading: Any) -> SentenceEncoder:
    from biomed.sentences.encoder import SentenceEncoder

    return SentenceEncoder.from_pretrained(model, **loading)


def _cross(model: str, **loading: Any) -> CrossEncoder:
    from biomed.sentences.encoder import CrossEncoder

    return CrossEncoder.from_pretrained(model, **loading)


def _validation(model: SentenceEncoder | CrossEncoder) -> str:
    """The scores that chose the weights, as text."""
    return ", ".join(
        f"{name} {score:.4f}"
        for name, score in model.manifest.training.validation.items()
    )
