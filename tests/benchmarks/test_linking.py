"""Articles with their concepts: what counts as right, and what was read before."""

import gzip
import json

import pytest

from benchmarks.linking import (
    ANY_DISEASE,
    MATCHES,
    _counts,
    article_row,
    as_in,
    read_articles,
    read_before,
    row,
    with_concept,
    with_names,
    without_disease,
)
from biomed.corpora.documents import Document, Span
from biomed.ner.dictionaries import Dictionary, Link
from biomed.ner.entities import Entity
from biomed.ner.evaluation import Prediction

TEXT = "Gout, asthma and disease of mice."


def span(start, end, id_):
    return Span(start, end, "Disease", id=id_)


def entity(start, end, id_):
    return Entity(start, end, TEXT[start:end], "Disease", 0.9, id=id_)


@pytest.fixture
def prediction():
    gold = (span(0, 4, "M:1"), span(6, 12, "M:2"), span(17, 24, ANY_DISEASE))
    entities = (
        entity(0, 4, "M:9"),
        entity(6, 10, "M:2"),
        entity(28, 32, None),
    )
    return Prediction(TEXT, gold, entities)


@pytest.mark.parametrize(
    ("rule", "hits"),
    list(zip(MATCHES, [1, 2, 0, 1], strict=True)),
    ids=list(MATCHES),
)
def test_a_mention_is_right_by_its_ends_and_its_concept(
    rule, hits, prediction
):
    assert _counts(prediction, MATCHES[rule]) == [hits, 3, hits, 3]
    (precision, *_) = article_row([prediction], MATCHES[rule])
    assert precision.startswith(f"{hits / 3:.3f}")


def test_entities_without_a_concept_can_be_left_out(prediction):
    linked = with_concept(prediction)
    assert [entity.id for entity in linked.entities] == ["M:9", "M:2"]
    assert linked.gold == prediction.gold


def test_disease_itself_can_be_left_out(prediction):
    specific = without_disease(prediction)
    assert [mention.id for mention in specific.gold] == ["M:1", "M:2"]
    assert len(specific.entities) == 3
    gold = (span(0, 4, ANY_DISEASE),)
    general = Prediction(TEXT, gold, prediction.entities)
    assert len(without_disease(general).entities) == 2


def test_articles_are_read_with_the_extent_of_mentions_in_parts(tmp_path):
    mentions = [{"spans": [[0, 4], [17, 24]], "id": "M:1"}]
    article = {"id": "1", "text": TEXT, "diseases": mentions}
    path = tmp_path / "articles.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(article).encode()))
    (document,) = read_articles(path)
    (mention,) = document.spans
    assert (mention.start, mention.end) == (0, 24)
    assert mention.discontinuous


def test_an_article_was_read_if_many_of_its_sentences_were(tmp_path):
    first = (
        f"{'Mice with gout were studied for a long time in this place, ' * 2}."
    )
    second = (
        f"{'Asthma of rats was not studied anywhere before this work, ' * 2}."
    )
    path = tmp_path / "sentences.txt.gz"
    path.write_bytes(gzip.compress(f"{first.replace(',', ' ,')}\n".encode()))
    documents = [Document("1", first, ()), Document("2", second, ())]
    assert read_before(documents, path) == [True, False]


def test_names_without_ids_join_the_concept_of_their_first_name(tmp_path):
    dictionary = Dictionary([("gout", "M:1"), ("asthma", "M:2")])
    path = tmp_path / "names.csv"
    path.write_text("name,synonyms\nGout,podagra|gouty arthritis\nrash,\n")
    joined = with_names(dictionary, path)
    assert joined.find("podagra").id == "M:1"
    assert joined.find("rash") is None


def test_a_name_belongs_to_its_most_frequent_concept_in_the_corpora(tmp_path):
    pairs = [("gout", "M:1"), ("gout", "M:2"), ("asthma", "M:3")]
    codes = {"M:1": ("MESH:D1",), "M:2": ("MESH:D2",), "M:3": ("MESH:D3",)}
    path = tmp_path / "corpus.pubtator"
    path.write_text(
        "1|t|Gout, gout and gout.\n1|a|\n1\t0\t4\tGout\tDisease\tD2\n"
        "1\t6\t10\tgout\tDisease\tD1\n1\t15\t19\tgout\tDisease\tD1\n"
    )
    joined = as_in(Dictionary(pairs, codes=codes), [path])
    assert joined.find("gout").id == "M:1"
    assert joined.find("asthma").id == "M:3"
    assert ("gout", "M:2") not in joined.pairs


def test_precision_is_of_links_and_right_of_names():
    links = [Link("M:1", "gout", 1.0), Link("M:9", "rash", 1.0), None, None]
    gold = ["M:1", "M:2", "M:3", "M:4"]
    assert row("names", links, gold) == ["names", "4", "2", "0.250", "0.500"]
