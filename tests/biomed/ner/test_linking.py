import io
import sys
import time
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from biomed.ner.commands import app
from biomed.ner.dictionaries import Dictionary, Link
from biomed.ner.differences import differ, is_drug_name
from biomed.ner.linking import EntityLinker
from biomed.ner.task import TagTask
from biomed.terms.names import normalised
from domainbert import progress
from domainbert.errors import UserError
from domainbert.tables import TableError, read_table

PAIRS = [
    ("Heart failure", "D1"),
    ("cardiac failure", "D1"),
    ("CHF", "D1"),
    ("Pneumonia", "D2"),
    ("multiple sclerosis", "D3"),
    ("MS", "D3"),
    ("mitral stenosis", "D4"),
    ("MS", "D4"),
    ("disseminated sclerosis", "D3"),
]


class Letters:
    """Vectors of letter counts: near names have near vectors."""

    calls = 0

    def embed_many(self, texts):
        self.calls += 1
        texts = list(texts)
        rows = [
            [text.casefold().count(chr(97 + i)) for i in range(26)]
            for text in texts
        ]

        class Part:
            vectors = np.array(rows, dtype=np.float32)

        yield Part

    def fingerprint(self):
        return "letters"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Carcinoma of the lung", "lung carcinoma"),
        ("Crohn's disease", "crohn disease"),
        ("oedema", "Edema"),
        ("anaemias", "anemia"),
        ("Type II diabetes", "type 2 diabetes"),
        ("Sjögren", "sjogren"),
        ("heart-failure", "heart failure"),
    ],
)
def test_names_that_differ_in_form(one, other):
    assert normalised(one) == normalised(other)


def test_names_that_differ():
    assert normalised("type 1 diabetes") != normalised("type 2 diabetes")
    assert normalised("hepatitis A") != normalised("hepatitis")
    assert normalised("protein S deficiency") != normalised(
        "protein deficiency"
    )
    assert normalised("AIDS") != normalised("aid")
    assert normalised("CARCINOMAS") == normalised("carcinoma")
    assert normalised("hypotension") != normalised("hypertension")


def test_by_name():
    found = EntityLinker(Dictionary(PAIRS)).link
    assert found(["heart  FAILURE"]) == [Link("D1", "Heart failure", 1.0)]
    assert found(["failures of the heart"]) == [
        Link("D1", "Heart failure", 0.95)
    ]
    # Two concepts have this name; the one with more names comes first.
    assert Dictionary(PAIRS).find("MS") == Link(
        "D3", "multiple sclerosis", 0.5
    )
    assert found(["gout", "the", ""]) == [None, None, None]


def test_by_vectors():
    letters = Letters()
    linker = EntityLinker(Dictionary(PAIRS), letters, min_score=0.1)
    assert linker.link(["pneumonias acute", "zzz"])[1] is None
    (link,) = linker.link(["pneumonitis"])
    assert (link.id, link.name) == ("D2", "Pneumonia")
    assert 0.1 <= link.score < 1
    calls = letters.calls
    assert linker.link(["pneumonitis"]) == [link]
    assert letters.calls == calls  # remembered
    # Vectors say nothing about an abbreviation.
    assert linker.link(["PNMA"]) == [None]


def test_threads_write_while_a_name_is_read():
    class Slow(Letters):
        started, go = Event(), Event()

        def embed_many(self, texts):
            self.started.set()
            assert self.go.wait(20)
            return super().embed_many(texts)

    linker = EntityLinker(Dictionary(PAIRS), slow := Slow())
    thread = Thread(target=linker.link, args=(["pneumonitis"],))
    thread.start()
    assert slow.started.wait(20)
    known = [Link("D2", "Pneumonia", 1.0)]
    assert linker.link(["pneumonia"]) == known

    class Names(list):
        def __iter__(self):
            # The other thread finishes while this one is in `link`.
            slow.go.set()
            thread.join()
            return super().__iter__()

    assert linker.link(Names(["pneumonia"])) == known


def test_texts_are_linked_together(disease):
    class Counting(EntityLinker):
        calls = 0

        def link(self, names, **options):
            self.calls += 1
            return super().link(names, **options)

    tagger = disease.with_options(
        linker=(linker := Counting(Dictionary(PAIRS)))
    )
    found = list(
        tagger.tag_many(["heart failure", "", "pneumonia, kidney disease"])
    )
    assert [[e.id for e in entities] for entities in found] == [
        ["D1"],
        [],
        ["D2", None],
    ]
    assert linker.calls == 1


def test_a_table(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("name,id\nHeart failure,007\nCHF,007\n")
    dictionary = Dictionary.read(path)
    assert dictionary.find("chf") == Link("007", "Heart failure", 1.0)
    assert dictionary.digest != Dictionary(PAIRS).digest
    path.write_text("name,id\nHeart failure,\n")
    with pytest.raises(TableError, match="row 0 has no name or no id"):
        Dictionary.read(path)
    path.write_text("name,code\nHeart failure,1\n")
    with pytest.raises(TableError, match="id"):
        Dictionary.read(path)
    with pytest.raises(UserError, match="empty"):
        Dictionary([])
    with pytest.raises(UserError, match="min_score"):
        EntityLinker(Dictionary(PAIRS), min_score=2)


def test_entities_get_ids(disease):
    tagger = disease.with_options(linker=EntityLinker(Dictionary(PAIRS)))
    (first, second) = tagger.tag("heart failure, no kidney disease")
    assert (first.id, first.name, first.link_score) == (
        "D1",
        "Heart failure",
        1.0,
    )
    assert (second.id, second.name, second.link_score) == (None, None, None)
    assert "D1" in str(tagger.show("heart failure"))
    table = tagger.score_frame(
        pd.DataFrame({"id": ["a"], "text": ["heart failure"]})
    )
    assert list(table["id"]) == ["a"]
    assert list(table["entity_id"]) == ["D1"]
    assert list(table["entity_name"]) == ["Heart failure"]
    plain = disease
    unlinked = plain.score_frame(pd.DataFrame({"text": ["heart failure"]}))
    assert unlinked["entity_id"].isna().all()
    assert TagTask(plain).facts() != TagTask(tagger).facts()


def test_abbreviations_are_resolved_in_the_text_first(disease):
    """MDD and AOM are no rare syndromes that happen to have this short name."""
    pairs = [
        ("Stickler syndrome", "D1"),
        ("AOM", "D1"),
        ("acute otitis media", "D2"),
    ]
    pairs += [
        ("heart failure", "D3"),
        ("HF", "D4"),
        ("hemorrhagic fever", "D4"),
        ("XYZ", "D5"),
    ]
    pairs += [("mal de debarquement", "D6"), ("MDD", "D6"), ("ABCD", "D7")]
    linker = EntityLinker(Dictionary(pairs), Letters())
    found = [
        link and link.id for link in linker.link(["AOM", "MDD", "XYZ", "ABCD"])
    ]
    assert found == ["D2", None, None, "D7"]
    tagger = disease.with_options(linker=linker)
    entities = tagger.tag("No heart failure (HF). HF was stable, HFs.")
    assert [(e.text, e.id) for e in entities] == [
        ("heart failure", "D3"),
        ("HF", "D3"),
        ("HF", "D3"),
    ]


def test_a_link_by_vectors_crosses_no_difference():
    pairs = [
        ("small cell lung cancer", "D1"),
        ("type 2 diabetes", "D2"),
        ("lung cancers", "D3"),
    ]
    linker = EntityLinker(Dictionary(pairs), Letters(), min_score=0.0)
    names = [
        "non-small cell lung cancer",
        "type 1 diabetes",
        "cancer lung one",
    ]
    assert [link and link.id for link in linker.link(names)] == [
        None,
        None,
        "D3",
    ]


def test_vectors_are_kept_beside_the_dictionary(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text(
        "name,id,codes\nHeart failure,D1,MESH:1|UMLS:2\nPneumonia,D2,\n"
    )
    first, second = Letters(), Letters()
    link = EntityLinker(Dictionary.read(path), first, min_score=0.1).link(
        ["pneumonitis", "heart failures"]
    )
    assert [each.codes for each in link] == [(), ("MESH:1", "UMLS:2")]
    assert first.calls == 2
    assert (tmp_path / "names.csv.vectors.npz").is_file()
    assert (
        EntityLinker(Dictionary.read(path), second, min_score=0.1).link(
            ["pneumonitis"]
        )
        == link[:1]
    )
    assert second.calls == 1  # the name alone
    path.write_text("name,id\nPneumonia,D2\n")
    third = Letters()
    EntityLinker(Dictionary.read(path), third).link(["pneumonitis"])
    assert third.calls == 2


def test_a_table_links_in_the_command(tmp_path, disease):
    disease.save_pretrained(tmp_path / "model")
    (tmp_path / "names.csv").write_text("name,id\nheart failure,D1\n")
    (tmp_path / "in.csv").write_text("text\nheart failure\n")
    command = [
        "tag",
        str(tmp_path / "in.csv"),
        "--model",
        str(tmp_path / "model"),
        "--exact",
    ]
    command += [
        "--dictionary",
        str(tmp_path / "names.csv"),
        "--out",
        str(tmp_path / "out.csv"),
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    (row,) = read_table(tmp_path / "out.csv").itertuples()
    assert (row.entity_id, row.link_score) == ("D1", "1.0")


# What no link by vectors crosses


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("non-small cell lung carcinoma", "Small Cell Lung Cancer"),
        ("type 1 diabetes", "type 2 diabetes mellitus"),
        ("type I diabetes", "type II diabetes"),
        ("lung cancer", "non-small cell lung cancer"),
        ("diabetes mellitus", "type 2 diabetes mellitus"),
        ("hepatitis B", "hepatitis C"),
        ("left bundle branch block", "right bundle branch block"),
        ("bundle branch block", "left bundle branch block"),
        ("pancreatitis", "pancreatic adenoma"),
        ("meningitis", "meningioma"),
        ("hyperkalemia", "hypokalemia"),
        ("acute leukemia", "chronic leukemia"),
        ("osteosarcoma", "osteoma"),
        ("gastritis", "hepatitis"),
        ("Factor V deficiency", "factor X deficiency"),
        ("nonketotic hyperglycinemia", "ketotic hyperglycinemia"),
    ],
)
def test_names_apart(name, other):
    assert differ(name, other)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("heart failure", "cardiac failure"),
        ("type II diabetes", "diabetes mellitus type 2"),
        ("left renal mass", "renal mass"),
        ("adenocarcinoma of the lung", "lung carcinoma"),
        ("hepatitis C infection", "hepatitis C virus infection"),
        ("renal tumours", "kidney neoplasm"),
        ("nonalcoholic fatty liver", "non-alcoholic fatty liver disease"),
        ("acute renal failure", "renal failure"),
    ],
)
def test_names_that_may_be_linked(name, other):
    assert not differ(name, other)


LOOKALIKES = pd.read_csv(Path(__file__).with_name("lookalikes.csv"))


@pytest.mark.parametrize(
    ("name", "other", "answer"),
    list(LOOKALIKES.itertuples(index=False, name=None)),
)
def test_lookalikes(name, other, answer):
    """Pairs of confusable names, and pairs of names of one concept."""
    assert differ(name, other) == (answer == "yes")
    assert differ(other, name) == (answer == "yes")


@pytest.mark.parametrize(
    "name", ["migraine", "gangrene", "uterine pain", "protein", "200 mg", ""]
)
def test_names_of_no_drug(name):
    assert not is_drug_name(name)


def test_a_drug_is_linked_by_name_only():
    linker = EntityLinker(
        Dictionary([("Zuvora", "D1"), ("Heart failure", "D2")]),
        Letters(),
        min_score=0.0,
    )
    names = ["Zuvorra", "zuvora"]
    labels = ["Chemical", "Chemical"]
    # A brand that no list has is known by its label alone.
    as_drugs = linker.link(names, labels=labels)
    assert [link and link.id for link in as_drugs] == [None, "D1"]
    assert linker.link(names)[0].id == "D1"
    assert linker.link(names, labels=labels) == as_drugs


@given(st.text(max_size=30))
def test_a_name_does_not_differ_from_itself(name):
    assert not differ(name, name)


class SlowLetters(Letters):
    """Vectors of two names at a time, each after a fifth of a second."""

    def embed_many(self, texts):
        texts = list(texts)
        for start in range(0, len(texts), 2):
            time.sleep(0.2)
            yield from super().embed_many(texts[start : start + 2])


@pytest.fixture
def terminal(monkeypatch):
    """What progress bars write to a terminal."""
    console = progress.Terminal(
        file=io.StringIO(), force_terminal=True, width=120, highlight=False
    )
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "stderr", console)
    return console.file


def test_the_names_of_a_dictionary_show_their_progress(terminal):
    Dictionary((f"disease {number}", f"C{number}") for number in range(2500))
    assert "names that are read" in terminal.getvalue()
    assert "2500/2500" in terminal.getvalue()


def test_the_vectors_of_a_dictionary_show_their_progress(terminal):
    linker = EntityLinker(Dictionary(PAIRS), SlowLetters())
    with progress.progress("rows", total=9) as advance:  # as in `ner tag`
        advance(1)
        linker.link(["pneumonitis"])
    shown = terminal.getvalue()
    total = len({normalised(name) for name, _ in PAIRS})
    for count in (2, 4):  # at least one of them is seen on a busy machine
        if f"{count}/{total}" in shown:
            break
    else:
        pytest.fail(f"no progress between 0 and {total}")
    assert "names of the dictionary" in shown
