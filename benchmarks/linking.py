r"""Linking of gold mentions to MeSH, and entities with their concepts on whole articles.

    DATA=../shared/data/ner
    biomed ner dictionary ../shared/data/names/mondo.csv.gz \
        --mappings ../shared/data/names/mondo_mappings.csv.gz --system MESH --out mesh.parquet
    python benchmarks/linking.py mesh.parquet $DATA/bc5cdr-ids/devel.pubtator \
        --names ../shared/data/names/mesh_diseases.csv.gz \
        --corpus $DATA/bc5cdr-ids/train.pubtator --corpus $DATA/ncbi-disease-ids/train.pubtator

Takes 10 minutes on two cores. Mentions of a PubTator file: how many get the right concept, and how
many links are right. Each distinct pair of a name and its id counts once, in the first document
that has it. Mentions of several concepts are left out, and so are ids that the dictionary does not
have. The dictionary gets further names of its concepts: those of a table without ids (--names), and
those in each --corpus, which decide where several concepts share a name.

    biomed ner dictionary ../shared/data/names/mondo.csv.gz --out mondo.parquet
    python benchmarks/linking.py mondo.parquet $DATA/craft/articles.jsonl.gz \
        --read ../shared/data/text/pubmed_sentences.txt.gz --page docs/lab/benchmarks.md

Articles of CRAFT (JSON lines with `text` and `diseases`): the shipped tagger and the linker read
raw articles, and both steps must be right. Articles whose sentences are in the file of --read were
trained on without their tags; they have a row of their own. --page replaces the section `articles`
of a page.

How to read the tables: for mentions, "right" is the share of names with the right concept, and
"precision" the share of links that are right; a higher least score of vectors trades one for the
other. For articles, brackets are 95% intervals from resampling articles, and each group has a row
for each rule of what is right.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from measuring import say
from reporting import command_line, write_section

from biomed import EntityTagger
from biomed.corpora.documents import Document, Span
from biomed.corpora.pubtator import read_pubtator
from biomed.ner.abbreviations import expanded, find_abbreviations
from biomed.ner.dictionaries import Dictionary, Link
from biomed.ner.errors import error_counts, errors_of
from biomed.ner.evaluation import Prediction
from biomed.ner.linking import MIN_SCORE, EntityLinker
from biomed.terms.names import NameTable, normalised, split_names
from biomed.terms.similarity import TermEmbedder
from domainbert.models.card import table
from domainbert.models.manifest import score_text
from domainbert.progress import counted
from domainbert.statistics.bootstrap import ratio_interval
from domainbert.tables import read_table
from domainbert.text.sentences import split_sentences
from recipes.notes.real import only_letters

if TYPE_CHECKING:
    from biomed.ner.entities import Entity

THRESHOLDS = (0.0, 0.3, 0.4, 0.5, MIN_SCORE, 0.7, 0.8)
DISEASE = "Disease"
ANY_DISEASE = "MONDO:0000001"  # the word "disease" itself, in CRAFT a mention
SHORTEST = 60  # letters of a sentence that is looked for among those read
READ_SHARE = 0.3  # of its sentences make an article one that was read


def mentions(
    path: Path,
    dictionary: Dictionary,
) -> Iterator[tuple[str, str, str]]:
    """Name, id, and name without abbreviations of its text, of each mention of a corpus."""
    ids: dict[str, str] = {}
    for id_, codes in dictionary.codes.items():
        ids |= dict.fromkeys(codes, id_)
    ids |= {id_: id_ for id_ in dictionary.preferred}
    for document in read_pubtator(path):
        definitions = find_abbreviations(document.text)
        for span in document.spans:
            code = span.id if ":" in span.id else f"MESH:{span.id}"
            if code in ids:
                name = document.text[span.start : span.end]
                yield name, ids[code], expanded(name, definitions)


def with_names(dictionary: Dictionary, path: Path) -> Dictionary:
    """With the names of rows whose first name, or else most names, belong to one concept."""
    concepts = NameTable(dictionary.pairs)
    pairs = list(dictionary.pairs)
    for row in read_table(path).itertuples():
        names = [row.name, *split_names(row.synonyms)]
        ids, _ = concepts.find(row.name)
        if len(ids) != 1:
            ids = _most_named(concepts, names)
        if len(ids) == 1:
            pairs += [(name, ids[0]) for name in names]
    return Dictionary(pairs, codes=dictionary.codes)


def _most_named(concepts: NameTable, names: Iterable[str]) -> list[str]:
    """The concepts to which the most of the names belong."""
    counts: Counter[str] = Counter()
    for name in names:
        ids, _ = concepts.find(name)
        counts.update(ids)
    highest = max(counts.values(), default=0)
    return [id_ for id_, count in counts.items() if count == highest]


def as_in(dictionary: Dictionary, corpora: list[Path]) -> Dictionary:
    """With the names in corpora, each for its most frequent id."""
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for path in corpora:
        for _, id_, name in mentions(path, dictionary):
            if form := normalised(name):
                counts[form][name, id_] += 1
    frequent = {}
    for form, counts_of_form in counts.items():
        ((pair, _),) = counts_of_form.most_common(1)
        frequent[form] = pair
    pairs = []
    for name, id_ in dictionary.pairs:
        _, frequent_id = frequent.get(normalised(name), (name, id_))
        if frequent_id == id_:
            pairs.append((name, id_))
    return Dictionary([*pairs, *frequent.values()], codes=dictionary.codes)


def row(
    method: str,
    links: list[Link | None],
    gold: list[str],
) -> list[str]:
    """Names, links, share of names that are right, share of links that are right."""
    n_linked = 0
    n_right = 0
    for link, id_ in zip(links, gold, strict=True):
        if link is not None:
            n_linked += 1
            n_right += link.id == id_
    share_of_names = f"{n_right / len(gold):.3f}"
    precision = f"{n_right / max(n_linked, 1):.3f}"
    return [method, f"{len(gold)}", f"{n_linked}", share_of_names, precision]


def mention_table(
    dictionary: Dictionary,
    gold: Path,
    embedder: TermEmbedder,
) -> str:
    """The table of gold mentions: by name, and by vectors from several scores on."""
    names: dict[tuple[str, str], str] = {}
    for name, id_, expansion in mentions(gold, dictionary):
        names.setdefault((name, id_), expansion)
    ids = [id_ for _, id_ in names]
    expansions = list(names.values())
    by_name = EntityLinker(dictionary)
    as_written = by_name.link([name for name, _ in names])
    say("by names, then by vectors")
    rows = [
        row("names alone", as_written, ids),
        row("abbreviations, names", by_name.link(expansions), ids),
    ]
    links = EntityLinker(dictionary, embedder, min_score=0.0).link(expansions)
    for threshold in THRESHOLDS:
        kept = [
            link if link and link.score >= threshold else None
            for link in links
        ]
        rows.append(
            row(f"and vectors, score of at least {threshold}", kept, ids)
        )
    return table(["by", "names", "linked", "right", "precision"], rows)


# --- whole articles


def read_articles(path: Path) -> list[Document]:
    """CRAFT's articles; a mention in parts is its extent."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        articles = [json.loads(line) for line in lines]
    documents = []
    for article in articles:
        spans = tuple(map(_span, article["diseases"]))
        documents.append(Document(article["id"], article["text"], spans))
    return documents


def _span(mention: dict) -> Span:
    parts = mention["spans"]
    in_parts = len(parts) > 1
    start = parts[0][0]
    end = parts[-1][1]
    return Span(start, end, DISEASE, in_parts, id=mention["id"])


def read_before(documents: Iterable[Document], sentences: Path) -> list[bool]:
    """Whether each article has many of its sentences in a file of sentences."""
    with gzip.open(sentences, "rt", encoding="utf-8") as lines:
        read = set(map(only_letters, lines))
    shares = []
    for document in documents:
        letters = map(only_letters, split_sentences(document.text))
        is_read = [
            sentence in read
            for sentence in letters
            if len(sentence) > SHORTEST
        ]
        shares.append(np.mean(is_read))
    return [bool(share > READ_SHARE) for share in shares]


@dataclass(frozen=True)
class Match:
    """When an entity is right: whether its ends, and whether its concept must be those of gold."""

    exact: bool
    concept: bool

    def __call__(self, span: Span, entity: Entity) -> bool:
        """Whether the entity is this gold mention."""
        if self.concept and span.id != entity.id:
            return False
        if self.exact:
            return (span.start, span.end) == (entity.start, entity.end)
        return span.start < entity.end and entity.start < span.end


MATCHES: dict[str, Callable[[Span, Entity], bool]] = {
    "entity, exact": Match(exact=True, concept=False),
    "entity, overlapping": Match(exact=False, concept=False),
    "entity and concept, exact": Match(exact=True, concept=True),
    "entity and concept, overlapping": Match(exact=False, concept=True),
}


def article_row(
    predictions: Sequence[Prediction],
    match: Callable[[Span, Entity], bool],
) -> list[str]:
    """Precision, recall and F1, with intervals from resampling articles."""
    counts = np.array(
        [_counts(prediction, match) for prediction in predictions]
    )
    hit_mentions, gold, right_entities, entities = counts.T
    recall = ratio_interval(hit_mentions, gold)
    precision = ratio_interval(right_entities, entities)
    f1 = ratio_interval(hit_mentions + right_entities, gold + entities)
    return [score_text(score) for score in (precision, recall, f1)]


def _counts(
    prediction: Prediction,
    match: Callable[[Span, Entity], bool],
) -> list[int]:
    """Gold mentions with an entity, gold mentions, entities with a gold mention, entities."""
    gold = prediction.gold
    entities = prediction.entities
    hits = [[match(span, entity) for entity in entities] for span in gold]
    shape = (len(gold), len(entities))
    hit_matrix = np.array(hits, dtype=bool).reshape(shape)
    hit_mentions = int(hit_matrix.any(axis=1).sum())
    right_entities = int(hit_matrix.any(axis=0).sum())
    return [hit_mentions, len(gold), right_entities, len(entities)]


def tagged_articles(
    documents: Sequence[Document],
    linker: EntityLinker,
) -> list[Prediction]:
    """Each article with its gold mentions, and the diseases of the shipped tagger with concepts."""
    tagger = EntityTagger.from_pretrained(linker=linker)
    predictions = []
    tagged = tagger.tag_many(document.text for document in documents)
    tagged = counted(
        tagged,
        what="articles",
        total=len(documents),
    )
    for document, entities in zip(documents, tagged, strict=True):
        diseases = tuple(
            entity for entity in entities if entity.label == DISEASE
        )
        predictions.append(Prediction(document.text, document.spans, diseases))
    return predictions


def without_disease(prediction: Prediction) -> Prediction:
    """Without the gold mentions of disease in general, and entities on them."""
    general = [span for span in prediction.gold if span.id == ANY_DISEASE]
    is_general = Match(exact=True, concept=False)

    def is_specific(entity: Entity) -> bool:
        return not any(is_general(span, entity) for span in general)

    entities = tuple(filter(is_specific, prediction.entities))
    gold = tuple(span for span in prediction.gold if span.id != ANY_DISEASE)
    return Prediction(prediction.text, gold, entities)


def with_concept(prediction: Prediction) -> Prediction:
    """Without the entities that have no concept."""
    linked = tuple(entity for entity in prediction.entities if entity.id)
    return Prediction(prediction.text, prediction.gold, linked)


def article_tables(
    documents: Sequence[Document],
    linker: EntityLinker,
    sentences: Path | None,
) -> str:
    """The scores of all articles and of groups of them, and the kinds of errors."""
    predictions = tagged_articles(documents, linker)
    specific = list(map(without_disease, predictions))
    groups = {
        "all": predictions,
        'without "disease" itself': specific,
    }
    if sentences:
        is_read = read_before(documents, sentences)
        is_unread = [not flag for flag in is_read]
        groups["of the latter, read without tags"] = [
            *compress(specific, is_read)
        ]
        groups["of the latter, never read"] = [*compress(specific, is_unread)]
    linked = list(map(with_concept, specific))
    groups['without "disease" itself, entities with a concept'] = linked
    rows = []
    for name, group in groups.items():
        title = f"{name}: {len(group)} articles, {_mentions(group):,} mentions"
        for rule, match in MATCHES.items():
            rows.append([title, rule, *article_row(group, match)])
    scores = table(["mentions", "right is", "precision", "recall", "F1"], rows)
    errors = errors_of(
        specific,
        types=[DISEASE],
        dictionary=linker.dictionary,
    )
    counts = [
        [error_type, f"{count:,}"]
        for error_type, count in error_counts(errors).items()
    ]
    error_table = table(["kind of error", "mentions"], counts)
    return f'{scores}\n\nErrors, without "disease" itself:\n\n{error_table}'


def _mentions(predictions: Iterable[Prediction]) -> int:
    return sum(len(prediction.gold) for prediction in predictions)


def main() -> None:
    """Print the table of a file of gold mentions or of articles."""
    parser = command_line(__doc__)
    parser.add_argument("dictionary", type=Path)
    parser.add_argument("gold", type=Path, help="mentions or articles")
    parser.add_argument("--names", type=Path)
    parser.add_argument(
        "--corpus",
        type=Path,
        action="append",
        default=[],
    )
    parser.add_argument("--read", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--model", default="terms")
    asked = parser.parse_args()
    if ".jsonl" in asked.gold.suffixes:
        linker = EntityLinker.from_table(asked.dictionary, model=asked.model)
        documents = read_articles(asked.gold)
        text = article_tables(documents, linker, asked.read)
        if asked.page:
            write_section(asked.page, "articles", text)
    else:
        dictionary = Dictionary.read(asked.dictionary)
        if asked.names:
            dictionary = with_names(dictionary, asked.names)
        dictionary = as_in(dictionary, asked.corpus)
        embedder = TermEmbedder.from_pretrained(asked.model)
        text = mention_table(dictionary, asked.gold, embedder)
    print(text)


if __name__ == "__main__":
    main()
