import logging
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import clinical
from domainbert.embedding import Embedder
from domainbert.errors import UserError

CANARY = "zebrafinch"


@pytest.fixture
def embedder(new_network, tokenizer):
    return Embedder(new_network().bert, tokenizer)


@pytest.fixture
def notes():
    return pd.DataFrame(
        {
            "patient_id": ["1", "1", "1", "2", "3", "4", "5"],
            "stay_id": ["a", "a", "b", "c", "d", "e", "f"],
            "text": [
                "Chest pain and dyspnea. " * 20,
                "Treated with furosemide.",
                "Chest pain and dyspnea. " * 20,
                "Chest pain and dyspnea.",
                "Pneumonia, antibiotic given.",
                None,
                "Kidney failure and fever without pain.",
            ],
        }
    )


def test_similar_stays_are_the_cosines_of_stay_vectors(notes, embedder):
    found = clinical.similar_stays(notes, k=2, encoder=embedder)
    expected = "patient_id stay_id rank similar_patient_id similar_stay_id similarity status reason"
    assert list(found.columns) == expected.split()
    texts = {"a": "\n\n".join(notes["text"][:2]), "c": notes["text"][3], "d": notes["text"][4]}
    texts["f"] = notes["text"][6]
    vectors = {stay: embedder.embed(text) for stay, text in texts.items()}
    own = found[found["stay_id"] == "a"]
    cosines = {
        stay: float(np.dot(v, vectors["a"]) / np.linalg.norm(v) / np.linalg.norm(vectors["a"]))
        for stay, v in vectors.items()
        if stay != "a"
    }
    best = sorted(cosines, key=lambda stay: -cosines[stay])[:2]
    assert own["similar_stay_id"].tolist() == best
    assert own["similarity"].tolist() == pytest.approx([cosines[stay] for stay in best], abs=1e-5)
    assert own["rank"].tolist() == [1, 2]


def test_no_stay_of_the_same_patient_is_found_and_every_stay_has_a_row(notes, embedder):
    found = clinical.similar_stays(notes, k=9, encoder=embedder)
    known = found["similar_patient_id"].notna()
    assert (found["patient_id"] != found["similar_patient_id"])[known].all()
    assert list(dict.fromkeys(found["stay_id"])) == list("abcdef")
    empty = found[found["stay_id"] == "e"]
    assert empty["status"].tolist() == ["empty"]
    assert empty["reason"].tolist() == ["no note of this stay has any text"]
    assert (found["stay_id"] == "a").sum() == 3  # not b, which is the same patient's, nor e


def test_new_stays_are_compared_with_others(notes, embedder):
    new = pd.DataFrame({"stay_id": ["new"], "text": ["Pneumonia, antibiotic given."]})
    found = clinical.similar_stays(new, among=notes, k=1, encoder=embedder)
    assert found["similar_stay_id"].tolist() == ["d"]
    assert found["similarity"][0] == pytest.approx(1, abs=1e-5)


def test_bad_input_is_one_line(notes, embedder):
    with pytest.raises(UserError, match="k must be at least 1, got 0"):
        clinical.similar_stays(notes, k=0)
    with pytest.raises(UserError, match="no column 'stay_id'"):
        clinical.similar_stays(notes[["text"]], encoder=embedder)
    alone = clinical.similar_stays(notes[:3], encoder=embedder)
    assert alone["reason"].tolist() == ["no stay of another patient to compare with"] * 2


def test_no_note_text_is_in_logs_or_tables(notes, embedder, caplog):
    caplog.set_level(logging.DEBUG)
    notes["text"] = [None if text is None else f"{text} {CANARY} pain" for text in notes["text"]]
    tables = [
        clinical.similar_stays(notes, encoder=embedder),
        clinical.copied_text(notes, words=1),
    ]
    assert not any(CANARY in table.to_csv() for table in tables)
    assert CANARY not in caplog.text


@pytest.mark.encoder
def test_the_example_of_the_documentation_runs():
    page = Path(__file__).parents[3] / "docs" / "similar.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL)
    session: dict[str, object] = {}
    exec(example, session)
    alike = session["alike"]
    assert alike.set_index("stay_id")["similar_stay_id"]["10"] == "20"
