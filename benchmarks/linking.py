"""Linking of gold mentions to MeSH, and entities with their concepts on whole articles.

Mentions of a PubTator file: how many get the right concept, and how many links are right. Each
distinct pair of a name and its id counts once, in the first document that has it. Mentions of
several concepts are left out, and so are ids that the dictionary does not have. The dictionary gets
further names of its concepts: those of a table without ids (--names), and those in each --corpus,
which decide where several concepts share a name.

    cd ../shared/data
    biomed ner dictionary names/mondo.csv.gz --mappings names/mondo_mappings.csv.gz
        --system MESH --out mesh.parquet
    python benchmarks/linking.py mesh.parquet ner/bc5cdr-ids/devel.pubtator
        --names names/mesh_diseases.csv.gz --corpus ner/bc5cdr-ids/train.pubtator
        --corpus ner/ncbi-disease-ids/train.pubtator

Articles of CRAFT (JSON lines with `text` and `diseases`): the shipped tagger and the linker read
raw articles, and both steps must be right. Articles whose sentences are in the file of --read were
trained on without their tags; they have a row of their own. --page replaces the section
`articles` of a page.

    biomed ner dictionary names/mondo.csv.gz --out mondo.parquet
    python benchmarks/linking.py mondo.parquet ner/craft/articles.jsonl.gz
        --read text/pubmed_sentences.txt.gz --page docs/lab/benchmarks.md
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.quality import write_section
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
    path: Path, dictionary: Dictionary
) -> Iterator[tuple[str, str, str]]:
    """Name, id, and name without abbreviations of its text, of each mention of a corpus."""
    ids = {
        code: id_ for id_, codes in dictionary.codes.items() for code in codes
    }
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
            counts = Counter(
                id_ for name in names for id_ in concepts.find(name)[0]
            )
            highest = max(counts.values(), default=0)
            ids = [id_ for id_, count in counts.items() if count == highest]
        if len(ids) == 1:
            pairs += [(name, ids[0]) for name in names]
    return Dictionary(pairs, codes=dictionary.codes)


def as_in(dictionary: Dictionary, corpora: list[Path]) -> Dictionary:
    """With the names in corpora, each for its most frequent id."""
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for path in corpora:
        for _, id_, name in mentions(path, dictionary):
            if form := normalised(name):
                counts[form][name, id_] += 1
    frequent = {
        form: max(pairs, key=lambda pair: pairs[pair])
        for form, pairs in counts.items()
    }
    pairs = [
        (name, id_)
        for name, id_ in dictionary.pairs
        if frequent.get(normalised(name), (name, id_))[1] == id_
    ]
    return Dictionary([*pairs, *frequent.values()], codes=dictionary.codes)


def row(method: str, links: list[Link | None], gold: list[str]) -> list[str]:
    """Names, links, share of names that are right, share of links that are right."""
    linked = sum(link is not None for link in links)
    correct = sum(
        link is not None and link.id == id_
        for link, id_ in zip(links, gold, strict=True)
    )
    shares = (correct / len(gold), correct / max(linked, 1))
    return [
        method,
        f"{len(gold)}",
        f"{linked}",
        *(f"{share:.3f}" for share in shares),
    ]


def mention_table(
    dictionary: Dictionary, gold: Path, embedder: TermEmbedder
) -> str:
    """The table of gold mentions: by name, and by vectors from several scores on."""
    names: dict[tuple[str, str], str] = {}
    for name, id_, expansion in mentions(gold, dictionary):
        names.setdefault((name, id_), expansion)
    ids = [id_ for _, id_ in names]
    expansions = list(names.values())
    by_name = EntityLinker(dictionary)
    as_written = by_name.link([name for name, _ in names])
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
    return [
        Document(
            article["id"],
            article["text"],
            tuple(map(_span, article["diseases"])),
        )
        for article in articles
    ]


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
    return [share > READ_SHARE for share in shares]


class Match(NamedTuple):
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
    predictions: Sequence[Prediction], match: Callable[[Span, Entity], bool]
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
    prediction: Prediction, match: Callable[[Span, Entity], bool]
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
    documents: Sequence[Document], linker: EntityLinker
) -> list[Prediction]:
    """Each article with its gold mentions, and the diseases of the shipped tagger with concepts."""
    tagger = EntityTagger.from_pretrained(linker=linker)
    predictions = []
    tagged = tagger.tag_many(document.text for document in documents)
    for document, entities in zip(documents, tagged, strict=True):
        diseases = tuple(e for e in entities if e.label == DISEASE)
        predictions.append(Prediction(document.text, document.spans, diseases))
        print(f"{len(predictions)} of {len(documents)} articles", flush=True)
    return predictions


def without_disease(prediction: Prediction) -> Prediction:
    """Without the gold mentions of disease in general, and entities on them."""
    general = [span for span in prediction.gold if span.id == ANY_DISEASE]
    is_general = Match(exact=True, concept=False)
    entities = tuple(
        entity
        for entity in prediction.entities
        if not any(is_general(span, entity) for span in general)
    )
    gold = tuple(span for span in prediction.gold if span.id != ANY_DISEASE)
    return Prediction(prediction.text, gold, entities)


def with_concept(prediction: Prediction) -> Prediction:
    """Without the entities that have no concept."""
    linked = tuple(entity for entity in prediction.entities if entity.id)
    return Prediction(prediction.text, prediction.gold, linked)


def article_tables(
    documents: Sequence[Document], linker: EntityLinker, sentences: Path | None
) -> str:
    """The scores of all articles and of groups of them, and the kinds of errors."""
    predictions = tagged_articles(documents, linker)
    specific = list(map(without_disease, predictions))
    groups = {"all": predictions, 'without "disease" itself': specific}
    if sentences:
        is_read = read_before(documents, sentences)
        for title, side in (
            ("read without tags", True),
            ("never read", False),
        ):
            groups[f"of the latter, {title}"] = [
                prediction
                for prediction, flag in zip(specific, is_read, strict=True)
                if flag == side
            ]
    groups['without "disease" itself, entities with a concept'] = list(
        map(with_concept, specific)
    )
    rows = []
    for name, group in groups.items():
        title = f"{name}: {len(group)} articles, {_mentions(group):,} mentions"
        rows += [
            [title, rule, *article_row(group, match)]
            for rule, match in MATCHES.items()
        ]
    scores = table(["mentions", "right is", "precision", "recall", "F1"], rows)
    errors = errors_of(specific, types=[DISEASE], dictionary=linker.dictionary)
    counts = [
        [kind, f"{count:,}"] for kind, count in error_counts(errors).items()
    ]
    kinds = table(["kind of error", "mentions"], counts)
    return f'{scores}\n\nErrors, without "disease" itself:\n\n{kinds}'


def _mentions(predictions: Iterable[Prediction]) -> int:
    return sum(len(prediction.gold) for prediction in predictions)


def main() -> None:
    """Print the table of a file of gold mentions or of articles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dictionary", type=Path)
    parser.add_argument("gold", type=Path)
    parser.add_argument("--names", type=Path)
    parser.add_argument("--corpus", type=Path, action="append", default=[])
    parser.add_argument("--read", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--model", default="terms")
    options = parser.parse_args()
    if ".jsonl" in options.gold.suffixes:
        linker = EntityLinker.from_table(
            options.dictionary, model=options.model
        )
        tables = article_tables(
            read_articles(options.gold), linker, options.read
        )
        if options.page:
            write_section(options.page, "articles", tables)
        print(tables)
        return
    dictionary = Dictionary.read(options.dictionary)
    if options.names:
        dictionary = with_names(dictionary, options.names)
    dictionary = as_in(dictionary, options.corpus)
    embedder = TermEmbedder.from_pretrained(options.model)
    print(mention_table(dictionary, options.gold, embedder))


if __name__ == "__main__":
    main()
