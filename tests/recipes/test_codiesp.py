"""CodiEsp as a cohort: aligned lines, places of codes, baselines."""

import gzip
import json

import numpy as np
import pytest

from clinical.evaluation.diagnoses import SHARES
from domainbert.tables import TableError
from recipes.codiesp.__main__ import (
    TFIDF,
    TFIDF_LINES,
    baseline_values,
    titles,
)
from recipes.codiesp.alignment import (
    align,
    english_lines,
    english_place,
    spanish_sentences,
)
from recipes.codiesp.cases import build_cohort, category

SPANISH = (
    "Varón de 54 años con hipertensión arterial. Acude por dolor abdominal y fiebre de 39 "
    "grados.\n\nLa ecografía mostró colelitiasis. Fue dado de alta a los 5 días."
)
ENGLISH = (
    "A 54-year-old man with arterial hypertension.\nHe presented with abdominal pain and fever "
    "of 39 degrees.\n1.\nUltrasound showed cholelithiasis.\nHe was discharged after 5 days."
)


def pieces(text, spans):
    return [text[start:end] for start, end in spans]


def links():
    return align(
        pieces(ENGLISH, english_lines(ENGLISH)),
        pieces(SPANISH, spanish_sentences(SPANISH)),
    )


def test_lines_and_sentences_are_aligned_and_the_number_of_a_paragraph_is_not():
    pairs = [
        (list(lines), list(sentences))
        for lines, sentences in links()
        if lines and sentences
    ]
    assert pairs == [([0], [0]), ([1], [1]), ([3], [2]), ([4], [3])]


def test_a_sentence_in_two_lines_is_aligned_with_both():
    english = [
        "He has fever of 39 degrees",
        "and pain for 5 days.",
        "No mass.",
    ]
    spanish = ["Presenta fiebre de 39 grados y dolor de 5 días.", "No masas."]
    assert align(english, spanish) == [
        (range(2), range(1)),
        (range(2, 3), range(1, 2)),
    ]


@pytest.mark.parametrize(
    ("spanish", "english"),
    [
        ("hipertensión", "hypertension"),
        ("fiebre", "fever"),
        ("colelit", "chole"),
    ],
)
def test_place_of_a_word_is_in_its_line(spanish, english):
    start, end = english_place(
        ENGLISH, SPANISH, links(), SPANISH.index(spanish)
    )
    middle = (start + end) // 2
    (line,) = [
        (first, last)
        for first, last in english_lines(ENGLISH)
        if first <= middle <= last
    ]
    assert english in ENGLISH[slice(*line)]
    assert line[0] <= start < end <= line[1]


def test_categories_have_no_dot():
    assert category("r50.9") == category("R509") == "R50"


@pytest.fixture
def folder(tmp_path):
    def case(number):
        return {
            "id": f"case-{number}",
            "text_en": ENGLISH,
            "text_es": SPANISH,
            "diagnoses": ["I10", "R50.9"],
            "mentions_es": [
                ["DIAGNOSTICO", "i10", "hipertensión arterial", "21 42"],
                ["PROCEDIMIENTO", "bw40", "ecografía", "98 107"],
            ],
        }

    for side, numbers in (("train", range(4)), ("dev", range(4, 6))):
        with gzip.open(tmp_path / f"{side}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(case(n)) + "\n" for n in numbers)
    return tmp_path


def test_cohort_has_categories_and_the_places_of_diagnoses(folder):
    cohort = build_cohort(folder)
    assert cohort["split"].tolist() == ["train"] * 4 + ["val"] * 2
    assert cohort["diagnoses"][0] == ["I10", "R50"]
    (place,) = cohort["evidence"][0]
    assert place["group"] == "I10"
    assert 0 <= place["start"] < place["end"] <= ENGLISH.index("\n")


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(TableError, match="expected CodiEsp's train"):
        build_cohort(tmp_path)


def test_baselines_find_a_word(folder):
    cohort = build_cohort(folder)
    train = cohort[cohort["split"] == "train"].reset_index(drop=True)
    train = train.assign(
        text=[["Fever.\nHe is well."]] * 2 + [["Pain.\nHe is well."]] * 2,
        diagnoses=[["R50"]] * 2 + [["R52"]] * 2,
        evidence=[[{"group": "R50", "note": 0, "start": 0, "end": 5}]] * 2
        + [[{"group": "R52", "note": 0, "start": 0, "end": 4}]] * 2,
    )
    new = train.iloc[[0, 2]]
    values = baseline_values(train, new, ["R50", "R52"])
    for name in (TFIDF, TFIDF_LINES):
        assert (values[name].argmax(axis=1) == [0, 1]).all()
    assert np.allclose(values[SHARES], 0.5)


def test_titles_have_a_name_for_each_category():
    assert titles()["R50"] == "Fever of other and unknown origin"
    assert all(len(code) == 3 and title for code, title in titles().items())
