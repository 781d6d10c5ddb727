"""The commands `biomed terms`: vectors, neighbours, pictures, quality and training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option, Typer

from biomed.sentences.commands import write_comparison
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, print_table, say
from domainbert.cli.training import TrainingOptions

if TYPE_CHECKING:
    from biomed.terms.similarity import TermEmbedder, TermIndex

app = Typer(
    no_args_is_help=True,
    help="Medical terms as vectors: embed, compare, plot, evaluate, train.",
)

VocabularyFile = Annotated[
    Path | None,
    Option(
        "--vocabulary", help="Your own terms; by default the shipped ones."
    ),
]
SOURCE_HELP = (
    "Terms: a table with a column `term`, or .txt with one on each line."
)


@app.command()
@one_line_errors
@options.takes_options
def embed(
    source: Annotated[str, Argument(metavar="SOURCE", help=SOURCE_HELP)],
    out: options.Table,
    *,
    scoring: options.ScoringOptions,
    model: options.EncoderModel = "terms",
) -> None:
    """Write the vector of every term of a file; each row has a status and a reason."""
    from biomed.terms.similarity import EmbedTask

    options.score_source(
        lambda: EmbedTask(_load(model, **scoring.loading())),
        source,
        out,
        scoring,
        text="term",
        lines=True,
    )


@app.command()
@one_line_errors
@options.takes_options
def similar(
    term: Annotated[
        str | None, Argument(help="The term; leave it out with --terms.")
    ] = None,
    *,
    scoring: options.ScoringOptions,
    terms: Annotated[str | None, Option(help=SOURCE_HELP)] = None,
    out: Annotated[
        Path | None, Option(help="With --terms: the table to write.")
    ] = None,
    vocabulary: VocabularyFile = None,
    k: Annotated[int, Option("-k", min=1, help="Neighbours per term.")] = 10,
    model: options.EncoderModel = "terms",
) -> None:
    """Find the terms of a vocabulary that are nearest to a term, or to each term of a file.

    Terms with the same name or a synonym come first, then the others by cosine. An abbreviation is
    read as what it stands for; if it has several meanings, each gets its own neighbours.
    """
    from biomed.terms.names import read_vocabulary
    from biomed.terms.similarity import NearestTask, TermIndex
    from domainbert.files import check_output
    from domainbert.models.embedder import check_faults

    def load_index() -> TermIndex:
        table = None
        if vocabulary:
            table = read_vocabulary(vocabulary)
        return TermIndex(_load(model, **scoring.loading()), table)

    if term is None and terms and out:
        check_output(out, filter(None, [vocabulary]))
        options.score_source(
            lambda: NearestTask(load_index(), k=k),
            terms,
            out,
            scoring,
            text="term",
            lines=True,
        )
    elif term is not None and not (terms or out):
        (result,) = load_index().look_up([term], k=k)
        check_faults([result.fault])
        rows = [
            (n.rank, n.neighbour, f"{n.similarity:.3f}", n.match, n.meaning)
            for n in result.nearest
        ]
        print_table(rows, ["", "neighbour", "similarity", "match", "meaning"])
        if result.reason:
            say(result.reason)
    else:
        raise BadParameter(
            "name a term, or a file with --terms FILE --out FILE"
        )


@app.command()
@one_line_errors
def plot(
    out: Annotated[Path, Option(help="The picture: .png, .svg or .pdf.")],
    source: Annotated[
        Path | None,
        Argument(help=f"{SOURCE_HELP} By default the shipped vocabulary."),
    ] = None,
    model: options.EncoderModel = "terms",
    perplexity: Annotated[
        float | None, Option(help="Perplexity of t-SNE.")
    ] = None,
    seed: Annotated[
        int, Option(help="Each seed gives a different picture.")
    ] = 0,
) -> None:
    """Draw terms by t-SNE; NAME.coordinates.csv gets their coordinates."""
    from biomed.terms.names import medical_terms, vocabulary_rows
    from biomed.terms.plots import layout_terms, plot_layout
    from domainbert.files import check_output
    from domainbert.statistics.figures import save_figure
    from domainbert.tables import write_table

    coordinates = out.with_suffix(".coordinates.csv")
    for file in (out, coordinates):
        check_output(file, filter(None, [source]))
    table = medical_terms()
    if source:
        table = vocabulary_rows(source)
    vectors, faults = _load(model).embed_all(table["term"].tolist())
    for row, fault in zip(table.index, faults, strict=True):
        if fault:
            say(f"row {row} has no vector and is left out: {fault}")
    has_vector = [not fault for fault in faults]
    table = table[has_vector]
    layout = layout_terms(
        table["term"].tolist(),
        vectors[has_vector],
        categories=table.get("category"),
        perplexity=perplexity,
        seed=seed,
    )
    write_table(layout.table, coordinates)
    save_figure(plot_layout(layout), out)
    say(layout.caption)
    say(f"picture in {out}, coordinates in {coordinates}")


@app.command()
@one_line_errors
def evaluate(
    out: Annotated[Path, Option(help="Folder for the table.")],
    pairs: Annotated[
        Path,
        Option(
            help="Rated pairs: the UMNSRS file, or a table with first, second and rating."
        ),
    ],
    model: Annotated[
        list[str] | None,
        Option(
            help="Encoder to compare; may be repeated; by default the two shipped ones."
        ),
    ] = None,
) -> None:
    """Compare encoders on pairs of terms that people have rated."""
    from biomed.sentences.data import read_pairs
    from biomed.sentences.evaluation import evaluate_models
    from domainbert.encoders.loading import DEFAULT_ENCODER

    rated = read_pairs(pairs)
    embedders = {
        name: _load(name) for name in model or ("terms", DEFAULT_ENCODER)
    }
    write_comparison(evaluate_models(embedders, sts=rated), out)


@app.command()
@one_line_errors
@options.takes_options
def train(
    names: Annotated[
        Path,
        Argument(help="A table with the columns term, and synonyms or id."),
    ],
    out: options.ModelFolder,
    training: TrainingOptions,
) -> None:
    """Train term vectors on your own synonyms, and write the model folder.

    Rows with the same id are names of one concept, as are a term and its synonyms. A tenth of the
    concepts choose the weights.
    """
    from biomed.sentences.training import SentenceRecipe
    from biomed.terms.training import fit, read_names

    plan = training.plan(
        SentenceRecipe,
        {"model.objective": "contrastive"},
        default="synonyms",
    )
    with training.run(out) as run:
        table = read_names(names)
        run.save(
            fit(table, plan, checkpoints=run.checkpoints, resume=run.resume)
        )
    say(f"model in {out}; its card says how it was made and how good it is")


def _load(model: str, **loading: Any) -> TermEmbedder:
    from biomed.terms.similarity import TermEmbedder

    return TermEmbedder.from_pretrained(model, **loading)
