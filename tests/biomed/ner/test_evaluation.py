import random
import re

import pandas as pd
import pytest

from biomed.corpora import Gold, TaggedText, read_gold
from biomed.corpora.documents import spans_of, tags_of
from biomed.ner.evaluation import (
    check_types,
    compare_spans,
    compare_words,
    evaluate_documents,
    evaluate_words,
    look_up_names,
)

TAGS = ("O", "B-x", "I-x", "B-y", "I-y")


def score_tags(gold, found):
    """Scores of the entities of tag sequences."""
    return compare_spans(
        list(map(spans_of, gold)), list(map(spans_of, found)), types="xy"
    )


def test_by_hand():
    gold = [["B-x", "I-x", "O", "B-y"], ["O", "B-x"]]
    found = [["B-x", "I-x", "O", "B-x"], ["B-x", "I-x"]]
    scores = score_tags(gold, found)
    overall = scores.overall
    assert (overall.correct, overall.predicted, overall.gold) == (1, 3, 3)
    assert (overall.precision, overall.recall, overall.f1) == pytest.approx(
        (1 / 3, 1 / 3, 1 / 3)
    )
    assert list(scores.table.index) == ["all", "x", "y"]
    assert list(scores.table.loc["x", ["correct", "predicted", "gold"]]) == [
        1,
        3,
        2,
    ]
    assert list(scores.table.loc["y", ["precision", "recall", "f1"]]) == [
        0.0,
        0.0,
        0.0,
    ]
    assert scores.table["recall"]["x"] == 0.5


def test_our_spans_are_those_of_seqeval():
    """Sixty sequences, most of them no valid IOB2, scored by spans and by seqeval."""
    draw = random.Random(0)
    for _ in range(60):
        lengths = [draw.randint(1, 12) for _ in range(draw.randint(1, 4))]
        gold, found = (
            [draw.choices(TAGS, k=n) for n in lengths] for _ in range(2)
        )
        if draw.random() < 0.5:
            found = [
                [t if draw.random() < 0.8 else draw.choice(TAGS) for t in row]
                for row in gold
            ]
        texts = [TaggedText(("a",) * len(tags), tuple(tags)) for tags in gold]
        by_seqeval = compare_words(
            texts, list(map(spans_of, found)), types="xy"
        )
        by_spans = score_tags(gold, found)
        pd.testing.assert_frame_equal(by_seqeval.table, by_spans.table)
        assert by_seqeval.interval == by_spans.interval


def test_the_numbers_are_those_of_seqeval(monkeypatch):
    def report(*tags, **options):
        assert options["mode"] == "strict"
        row = {"precision": 0.5, "recall": 0.25, "f1-score": 0.125}
        return {"micro avg": row, "x": row}

    monkeypatch.setattr("seqeval.metrics.classification_report", report)
    texts = [TaggedText(("a", "b"), ("B-x", "O"))]
    table = compare_words(texts, [[(0, 1, "x"), (1, 2, "z")]], types="x").table
    assert table.loc["all"].tolist() == [0.5, 0.25, 0.125, 1, 1, 1]


def test_each_gold_text_has_a_prediction():
    with pytest.raises(ValueError, match="2 gold texts but 1 predicted ones"):
        score_tags([["O"], ["O"]], [["O"]])
    with pytest.raises(ValueError, match="1 gold texts but 0 predicted"):
        compare_spans([[]], [], types="x")


def test_nothing_gold_and_nothing_found():
    scores = score_tags([["O"]], [["O"]])
    assert (scores.overall.f1, list(scores.table.index)) == (0.0, ["all"])


def test_words_as_the_corpus_has_them(disease):
    texts = (
        TaggedText(("heart", "failure"), ("B-Disease", "I-Disease")),
        TaggedText(("heart", "\x10", "was"), ("B-Disease", "O", "O")),
        TaggedText(
            ("chest", "pain"), tuple(tags_of([(0, 2, "Disease")], words=2))
        ),
    )
    overall = evaluate_words(disease, Gold("gold", texts)).overall
    assert (overall.correct, overall.predicted, overall.gold) == (2, 2, 3)


def test_documents_by_characters(tagger, tmp_path):
    path = tmp_path / "gold.txt"
    path.write_text(
        "1|t|Heart failure\n1|a|renal failure and insulin\n"
        "1\t0\t13\tHeart failure\tDisease\tD1\n1\t14\t19\trenal\tDisease\tD1\n"
        "1\t32\t39\tinsulin\tDrug\tD1\n"
    )
    gold = read_gold(path)
    scores = evaluate_documents(tagger, gold)
    assert (
        scores.overall.correct,
        scores.overall.predicted,
        scores.overall.gold,
    ) == (
        2,
        3,
        3,
    )
    check_types(tagger.types, gold)
    with pytest.raises(
        ValueError,
        match=r"entities of type Drug; the model finds Disease\. Rename",
    ):
        check_types(["Disease"], gold)


def test_the_look_up_baseline_finds_the_longest_known_name_and_no_other():
    train = [
        TaggedText(
            ("Heart", "failure", "or", "heart"), ("B-D", "I-D", "O", "B-D")
        )
    ]
    train += [TaggedText(("BRCA1",), ("B-Gene",))]
    words = ("HEART", "failure", ",", "heart", "and", "BRCA1", "new")
    gold = Gold(
        "g", (TaggedText(words, ("B-D", "I-D", "O", "B-D", "O", "O", "B-D")),)
    )
    found = look_up_names(
        train, gold
    ).overall  # the corpus does not annotate genes
    assert (found.correct, found.predicted, found.gold) == (2, 2, 3)
    assert look_up_names([], gold).overall.predicted == 0


@pytest.mark.parametrize(
    ("kind", "types", "labels"),
    [
        ("Gene", ["Chemical", "Disease"], {"Gene": ""}),
        ("Drug", ["Chemical", "Disease"], {"Drug": "Chemical"}),
        (
            "SpecificDisease",
            ["Chemical", "Disease"],
            {"SpecificDisease": "Disease"},
        ),
        ("gene", ["Chemical", "Gene"], {"gene": "Gene"}),
        ("Diseases", ["Disease", "Gene"], {"Diseases": "Disease"}),
        ("Entity", ["Disease"], {"Entity": "Disease"}),
        ("Entity", ["Chemical", "Disease"], {"Entity": "NAME"}),
    ],
)
def test_a_hint_names_a_type_of_the_same_meaning_or_none(kind, types, labels):
    gold = Gold("gold", (TaggedText(("x",), (f"B-{kind}",)),))
    with pytest.raises(ValueError, match=re.escape(f"`labels={labels}`")):
        check_types(types, gold)
