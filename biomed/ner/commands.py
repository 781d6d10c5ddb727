"""The commands of `biomed ner`."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Option, Typer

from biomed.ner.entities import MIN_SCORE, NEEDED, Format, TaggedView
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, print_table, say, stdout
from domainbert.cli.options import ScoringOptions
from domainbert.cli.training import TrainingOptions
from domainbert.errors import UserError
from domainbert.files import check_output
from domainbert.progress import counted

if TYPE_CHECKING:
    from biomed.corpora import Gold
    from biomed.ner.evaluation import Scores
    from biomed.ner.releases import Choices

_PAPER_IDS = ("id", "pmid", "pmcid", "doi", "doc_id", "document_id")
app = Typer(
    no_args_is_help=True,
    help="Find diseases and drugs in text of any length, with positions.",
)

Labels = Annotated[
    list[str] | None,
    Option(
        "--label",
        help="Rename an entity type: OLD=NEW; OLD= drops it. May be repeated.",
    ),
]


@app.command()
@one_line_errors
@options.takes_options
def train(
    corpora: Annotated[
        list[Path],
        Argument(
            metavar="CORPUS...",
            help="Folders with train, devel and optionally test.",
        ),
    ],
    out: options.ModelFolder,
    training: TrainingOptions,
    label: Labels = None,
) -> None:
    """Train on corpora in IOB2, PubTator or BRAT; devel chooses the weights, test measures them."""
    from biomed.corpora import read_corpus
    from biomed.ner.training import EntityRecipe, fit
    from domainbert.models.manifest import score_text

    plan = training.plan(EntityRecipe)
    with training.run(out) as run:
        labels = renaming(label)
        read = [read_corpus(folder, labels=labels) for folder in corpora]
        for corpus in read:
            for gold in corpus.sides.values():
                _say_remarks(gold)
        model = fit(read, plan, checkpoints=run.checkpoints, resume=run.resume)
        run.save(model)
    for row, f1 in model.manifest.scores.table["f1"].items():
        say(f"{row}: F1 {score_text(f1)}")
    say(f"model in {out}; README.md there has its data and scores")


@app.command()
@one_line_errors
@options.takes_options
def tag(
    source: options.Source,
    scoring: ScoringOptions,
    out: Annotated[
        Path | None,
        Option(
            help="A table (.csv, .parquet, .jsonl); without it, marked texts are shown."
        ),
    ] = None,
    model: options.ModelName = "disease-drug",
    form: Annotated[
        Format | None,
        Option(
            "--format",
            help="Instead of a table: pubtator, bioc (XML), bioc-json, or brat (a new folder, with "
            "--out). Beside the table: omop (NOTE_NLP, CONDITION_OCCURRENCE, DRUG_EXPOSURE, "
            "OBSERVATION) or fhir "
            "(Condition, MedicationStatement, AllergyIntolerance).",
        ),
    ] = None,
    min_score: Annotated[
        float,
        Option(min=0, max=1, help="Leave out entities with a lower score."),
    ] = MIN_SCORE,
    dictionary: Annotated[
        Path | None,
        Option(
            help="A file of `biomed ner dictionary`, or a table with the columns name and id; "
            "entities get the concept's id."
        ),
    ] = None,
    exact: Annotated[
        bool, Option("--exact", help="Link by name only, not by vectors.")
    ] = False,
    section: Annotated[
        list[str] | None,
        Option(
            help="Keep entities of this section, such as allergies, or leave out those of "
            "-family_history. May be repeated."
        ),
    ] = None,
    assertion_rules: Annotated[
        Path | None,
        Option(help="A TOML file of your own cues for assertions."),
    ] = None,
) -> None:
    """Find the entities of each text; write a table with a row per entity, or show marked texts.

    With - as SOURCE, one text is read from stdin. A database needs --out with a table.
    """
    from biomed.ner.tagger import EntityTagger

    def load() -> EntityTagger:
        """The tagger that the options describe."""
        linker = None
        if dictionary:
            from biomed.ner.linking import EntityLinker

            vectors = None if exact else "terms"
            linker = EntityLinker.from_table(dictionary, model=vectors)
        return EntityTagger.from_pretrained(
            model,
            min_score=min_score,
            linker=linker,
            assertion_rules=assertion_rules,
            sections=section or (),
            **scoring.loading(),
        )

    if form and out is None:
        raise BadParameter(
            "--format writes a file or a folder: name it with --out"
        )
    if out and (form is None or form in NEEDED):
        from biomed.ner.export import export_entities
        from biomed.ner.task import TagTask
        from domainbert.tables.options import DATABASES

        needed = NEEDED.get(form or "")
        fields, columns = _fields(scoring)
        if needed and not source.startswith(DATABASES):
            _match(source, scoring, needed=needed)  # before a model is loaded
        options.score_source(
            lambda: TagTask(load(), needed=needed, text=fields),
            source,
            out,
            columns,
        )
        if form:
            paths = export_entities(
                out, form, named=columns.named(), dictionary=dictionary
            )
            _say_exported(paths, form)
        return
    names = ("keep", "restart", "stay", "patient", "time", "query")
    scoring.refuse(*names, because="unless --out is a table of entities")
    texts = _texts(source, scoring)
    tagger = load()
    pairs, copies = itertools.tee(texts)
    results = tagger.tag_many(text for _, text in copies)
    # Entities first: a thread reads ahead, and only what it has read is asked for here.
    tagged = (
        (*pair, entities)
        for entities, pair in zip(results, pairs, strict=True)
    )
    if form and out:
        from biomed.ner.standoff import TaggedDocument, write_tagged

        documents = itertools.starmap(TaggedDocument.of_tags, tagged)
        number = write_tagged(counted(documents, what="texts"), out, form=form)
        say(f"{number:,} texts; written to {out}")
        return
    for _, text, entities in tagged:
        view = TaggedView(text, tuple(entities), tagger.types)
        stdout.print(view, soft_wrap=True)


def _say_exported(paths: Mapping[Path, int], form: Format) -> None:
    """The exported files with their numbers of rows, and what has no resource."""
    files = (f"{path} ({count:,})" for path, count in paths.items())
    say(f"as {form}: {', '.join(files)}")
    if form == "fhir":
        say(
            "no resource: entities of other people, reactions to a drug (they are in its "
            "AllergyIntolerance), and drugs to which the note denies an allergy"
        )


def _texts(source: str, scoring: ScoringOptions) -> Iterator[tuple[str, str]]:
    """Id and text of each row: its id, the name of its file, or else the row's number."""
    from biomed.ner.task import JoinedText, joined_text
    from domainbert.tables import iter_rows

    if source == "-":
        scoring.refuse(
            "text", "note", "delimiter", because="on a text from stdin"
        )
        data = sys.stdin.buffer.read()
        yield "stdin", data.decode(scoring.encoding or "utf-8-sig", "replace")
        return
    reading = scoring.reading()
    fields, _ = _fields(scoring)
    available, chosen = _match(source, scoring)
    paper_ids = [name for name in available if name.casefold() in _PAPER_IDS]
    id_columns = [chosen.get("note_id", ""), *paper_ids]
    for row in iter_rows(source, reading):
        texts = {
            ours: row.cells.get(theirs) for ours, theirs in chosen.items()
        }
        item = row.fault or joined_text(replace(row, cells=texts), fields)
        if isinstance(item, JoinedText):
            ids = filter(None, map(row.cells.get, id_columns))
            yield str(next(ids, row.number)), item.text
        else:
            say(f"{row.place}: {getattr(item, 'reason', item)}")


def _match(
    source: str, scoring: ScoringOptions, *, needed: str | None = None
) -> tuple[list[str], dict[str, str]]:
    """The columns of a table, and those among them that are read, by our names."""
    from biomed.ner.task import columns_of
    from domainbert.tables import match_columns, table_columns
    from domainbert.tables.columns import NAMED

    fields, options_of_ids = _fields(scoring)
    available = table_columns(source, scoring.reading())
    matches = match_columns(
        available,
        columns_of(fields, needed=needed),
        named=options_of_ids.named(),
        argument=NAMED,
        source=Path(source).name,
    )
    return available, matches


def _fields(scoring: ScoringOptions) -> tuple[list[str], ScoringOptions]:
    """Several columns of text, and the options without them; see `TagTask`."""
    fields = list(scoring.text or ())
    if len(fields) < 2:
        return [], scoring
    return fields, replace(scoring, text=None)


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions:
    """The options of `dictionary` that say what is read of releases; see `Choices`."""

    language: Annotated[
        str,
        Option(
            help="Of the names: en, a release's own code (GER), or a reference set of SNOMED CT."
        ),
    ] = "en"
    vocabulary: Annotated[
        list[str] | None,
        Option(
            help="Read this source of UMLS (SNOMEDCT_US) or vocabulary of Athena (RxNorm) only. "
            "May be repeated."
        ),
    ] = None
    term_type: Annotated[
        list[str] | None,
        Option(
            help="Read this type of terms of UMLS or RxNorm (PT) only. May be repeated."
        ),
    ] = None
    types: Annotated[
        list[str] | None,
        Option(
            help="What an entity type is, instead of the defaults: Disease=T047,T191 (UMLS), "
            "Disease=Condition (Athena), Disease=disorder (SNOMED CT). May be repeated."
        ),
    ] = None
    suppressed: Annotated[
        bool, Option("--suppressed", help="Read suppressed names too.")
    ] = False
    encoding: options.Encoding = None

    def choices(self, system: str | None) -> Choices:
        """What is read of releases."""
        from biomed.ner.releases import Choices

        form = "LABEL=TYPE,TYPE"
        pairs = renaming(self.types, option="--types", form=form)
        types = {label: names.split(",") for label, names in pairs.items()}
        return Choices(
            language=self.language,
            vocabularies=self.vocabulary or (),
            term_types=self.term_type or (),
            types=types,
            suppressed=self.suppressed,
            encoding=self.encoding,
            system=system,
        )


@app.command()
@one_line_errors
@options.takes_options
def dictionary(
    sources: Annotated[
        list[Path],
        Argument(
            metavar="SOURCE...",
            help="Folders of UMLS, SNOMED CT, RxNorm, Athena or ICD-10-CM as downloaded and "
            "unpacked; tables with id, name and synonyms (split by |), such as MONDO's or your "
            "own; RxNorm's brands with rxcui, ingredient, brands.",
        ),
    ],
    out: Annotated[
        Path,
        Option(
            help="The file to write: names.sqlite, or of tables alone names.parquet."
        ),
    ],
    release: ReleaseOptions,
    mappings: Annotated[
        Path | None,
        Option(
            help="A table of the tables' ids and their codes in other systems."
        ),
    ] = None,
    system: Annotated[
        str | None,
        Option(
            help="Link to this system: OMOP, SNOMED, ICD10CM, RXNORM, UMLS, MESH or OMIM."
        ),
    ] = None,
    listed: Annotated[
        list[Path] | None,
        Option(
            help="A table of your own names, used however short they are. May be repeated."
        ),
    ] = None,
    vectors: Annotated[
        int | None,
        Option(
            min=1,
            help="Write vectors of up to this many names too, so that other names are linked.",
        ),
    ] = None,
) -> None:
    """Write the names of vocabularies into a dictionary for `tag --dictionary`."""
    from biomed.ner.dictionaries import ENDING, build_dictionary

    listed = listed or []
    check_output(out, [*sources, *listed, *filter(None, [mappings])])
    if out.suffix.lower() != ENDING:
        from biomed.ner.releases import find_release
        from domainbert.tables import write_table

        releases = [source for source in sources if find_release(source)]
        if releases or listed or vectors:
            raise BadParameter(
                f"--out {out}: releases, --listed and --vectors need a file that ends in {ENDING}"
            )
        frame = build_dictionary(sources, mappings=mappings, system=system)
        write_table(frame, out)
        say(
            f"{len(frame):,} names of {frame['id'].nunique():,} concepts; written to {out}"
        )
        return
    from biomed.ner.name_files import build_file

    facts = build_file(
        sources,
        out,
        listed=listed,
        mappings=mappings,
        choices=release.choices(system),
    )
    say(
        f"{facts['names']:,} names of {facts['concepts']:,} concepts; written to {out}"
    )
    if vectors:
        from biomed.ner.linking import write_vectors

        count = write_vectors(out, limit=vectors)
        say(f"vectors of {count:,} names beside it")


@app.command()
@one_line_errors
def evaluate(
    gold: Annotated[
        Path,
        Argument(
            metavar="GOLD",
            help="A CoNLL, PubTator or BioC file, or a BRAT folder.",
        ),
    ],
    model: options.ModelName,
    label: Labels = None,
    dictionary: Annotated[
        Path | None,
        Option(help="A table of names and ids; links are evaluated too."),
    ] = None,
    json: Annotated[
        Path | None,
        Option(
            help="Write the scores and the errors by section to this file, and the most "
            "frequent texts of each kind of error to NAME.errors.csv beside it."
        ),
    ] = None,
    device: options.Device = None,
) -> None:
    """Score a model by exact spans of whole documents, or of the sentences of a CoNLL file.

    The kinds of errors are counted too: missed, boundary, type, invented and, where the gold
    standard has them, assertion and link.
    """
    from biomed.corpora import read_gold
    from biomed.ner import evaluation
    from biomed.ner.errors import error_counts, errors_of, write_errors
    from biomed.ner.linking import EntityLinker
    from biomed.ner.tagger import EntityTagger

    if json:
        check_output(json, [gold])
    standard = read_gold(gold, labels=renaming(label))
    tagger = EntityTagger.from_pretrained(model, device=device)
    evaluation.check_types(tagger.types, standard)
    _say_remarks(standard)
    types = sorted(set(standard.types) & set(tagger.types))
    linker = None
    names = None
    if dictionary:
        linker = EntityLinker.from_table(dictionary)
        names = linker.dictionary
    if standard.documents:
        unit = "characters"
        tagger = tagger.with_options(linker=linker)
        predictions = evaluation.predict_documents(tagger, standard)
        scores = evaluation.compare_predictions(predictions, types=types)
    else:
        unit = "words"
        spans = evaluation.predicted_words(tagger, standard)
        scores = evaluation.compare_words(standard.texts, spans, types=types)
        predictions = evaluation.predictions_of_words(standard.texts, spans)
    errors = list(errors_of(predictions, types=types, dictionary=names))
    print_scores(f"by {unit}", scores)
    print_table(error_counts(errors).items(), ["errors", "count"])
    if json:
        facts = {
            "gold": standard.name,
            "texts": len(standard.texts),
            "unit": unit,
        }
        facts["scores"] = scores.table.to_dict("index")
        texts = write_errors(errors, facts, json)
        say(f"scores in {json}, the most frequent errors in {texts}")


def print_scores(title: str, scores: Scores) -> None:
    """A table of the scores over all types and of each type."""
    from domainbert.models.manifest import score_text

    head = [title, "precision", "recall", "F1", "correct", "found", "gold"]
    print_table(
        (list(map(score_text, row)) for row in scores.table.itertuples()), head
    )


def renaming(
    pairs: list[str] | None, *, option: str = "--label", form: str = "OLD=NEW"
) -> dict[str, str]:
    """What is left and right of the sign in each value of an option."""
    if wrong := [pair for pair in pairs or [] if "=" not in pair]:
        raise UserError(f"{option}: expected {form}, got {wrong[0]!r}")
    return dict(pair.split("=", maxsplit=1) for pair in pairs or [])


def _say_remarks(gold: Gold) -> None:
    for remark in gold.remarks:
        say(f"{gold.name}: {remark}")
