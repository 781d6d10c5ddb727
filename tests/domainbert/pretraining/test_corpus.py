import gzip

import numpy as np
import pandas as pd
import pytest

from domainbert.pretraining.corpus import (
    HELD_OUT,
    TRAIN,
    TextCorpus,
    TextCorpusError,
    read_exclusions,
)
from domainbert.pretraining.settings import CorpusSettings
from domainbert.tables import TableError, write_table

HALF = CorpusSettings(held_out=0.5)


def numbered(count, *, start=0):
    """Documents of one sentence each, none like another."""
    return [
        f"The note of number {n} says that all is well."
        for n in range(start, start + count)
    ]


def read(corpus):
    return [sentence for _, sentences in corpus for sentence in sentences]


def table(path, **columns):
    write_table(pd.DataFrame(columns), path)
    return path


# --- files


def test_a_file_has_blocks_and_a_folder_has_files(tmp_path):
    texts = numbered(12)
    (tmp_path / "one.txt").write_text("\n\n".join(texts))
    assert read(TextCorpus([tmp_path / "one.txt"], settings=HALF)) == texts
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    for number, text in enumerate(texts):
        (folder / "deep" / f"{number:02}.txt").write_text(f"{text}\n\nStable.")
    corpus = TextCorpus([folder], settings=HALF)
    assert len(list(corpus)) == corpus.counts["documents"] == 12
    assert read(corpus) == [
        part for text in texts for part in (text, "Stable.")
    ]
    (tmp_path / "run.txt").write_text("\n".join(texts))
    with pytest.raises(
        TextCorpusError,
        match=r"no document is on the .* side: .* lines = 20 under",
    ):
        list(TextCorpus([tmp_path / "run.txt"], settings=HALF))


def test_long_files_are_cut_by_lines(tmp_path):
    texts = numbered(50)
    (tmp_path / "run.txt").write_text("\n".join(texts))
    corpus = TextCorpus(
        [tmp_path / "run.txt"], settings=CorpusSettings(held_out=0.5, lines=7)
    )
    documents = [sentences for _, sentences in corpus]
    assert [len(sentences) for sentences in documents] == [7] * 7 + [1]
    assert read(corpus) == texts


@pytest.mark.parametrize(
    "ending", [".csv", ".csv.gz", ".parquet", ".jsonl", ".jsonl.gz", ".txt.gz"]
)
def test_every_format_gives_the_same_sentences(tmp_path, ending):
    texts = numbered(20)
    path = tmp_path / f"notes{ending}"
    if ending == ".txt.gz":
        path.write_bytes(gzip.compress("\n\n".join(texts).encode()))
    else:
        table(path, text=texts)
    assert read(TextCorpus([path], settings=HALF)) == texts


def test_columns_may_have_other_names_and_a_cell_may_hold_a_list(tmp_path):
    texts = numbered(20)
    path = table(
        tmp_path / "notes.parquet",
        TEXT=[
            np.array(texts[n : n + 2], dtype=object) for n in range(0, 20, 2)
        ],
        SUBJECT_ID=range(10),
    )
    settings = CorpusSettings(
        text="TEXT", patient_id="SUBJECT_ID", held_out=0.5
    )
    corpus = TextCorpus([path], settings=settings)
    sides = [side for side, _ in corpus]
    assert read(corpus) == texts
    assert sides[::2] == sides[1::2]  # a patient's notes are on one side
    assert {*sides} == {TRAIN, HELD_OUT}


def test_what_is_erased_is_gone_and_list_items_are_still_told_apart(tmp_path):
    note = (
        "1. Aspirin for [**Name 12**] daily\n2. Insulin at ___ hours\n------\n"
    )
    path = table(tmp_path / "notes.csv", text=[note, *numbered(9)])
    erase = r"\[\*\*[^\[\]]*\*\*\]|_{2,}|[-=]{3,}|^\d{1,2}[.)](?=\s)"
    corpus = TextCorpus(
        [path], settings=CorpusSettings(held_out=0.5, erase=erase)
    )
    assert read(corpus)[:2] == ["Aspirin for daily", "Insulin at hours"]
    with pytest.raises(
        ValueError, match=r"^erase must be a regular expression: "
    ):
        TextCorpus([path], settings=CorpusSettings(erase="["))


# --- sides


def test_sides_are_by_patient_and_stay_when_documents_are_added(
    new_notes, tmp_path
):
    notes = new_notes(200)
    corpora = {}
    for name, rows in (("some", notes[:100]), ("all", notes)):
        write_table(rows, tmp_path / f"{name}.csv")
        corpus = TextCorpus(
            [tmp_path / f"{name}.csv"], settings=CorpusSettings(held_out=0.3)
        )
        corpora[name] = [side for side, _ in corpus]
    assert corpora["all"][:100] == corpora["some"]
    assert corpora["all"][::2] == corpora["all"][1::2]
    assert 0.15 < np.mean([side == HELD_OUT for side in corpora["all"]]) < 0.45


# --- what is left out


def test_the_counts_add_up(tmp_path):
    texts = [
        *numbered(20),
        numbered(1)[0],
        None,
        "  ",
        "\ufffd" * 50 + "few words here",
    ]
    corpus = TextCorpus(
        [table(tmp_path / "notes.parquet", text=texts)], settings=HALF
    )
    list(corpus)
    counts = corpus.counts
    assert counts["documents"] == 24
    assert counts["documents that repeat an earlier one"] == 1
    assert counts["documents without text"] == 2
    assert counts["documents that are not UTF-8"] == 1
    assert counts["train documents"] + counts["held-out documents"] == 20


def test_a_few_undecodable_bytes_cost_nothing(tmp_path):
    text = "\n\n".join(
        numbered(20)
    ).encode() + "\n\nThe caf\u00e9 is closed for all of us.".encode("latin-1")
    (tmp_path / "notes.txt").write_bytes(text)
    assert read(TextCorpus([tmp_path / "notes.txt"], settings=HALF))[
        -1
    ].startswith("The caf\ufffd is")


# --- exclusion


@pytest.fixture
def excluded(new_notes, tmp_path):
    """Notes, and what reading them leaves when a list excludes some."""
    notes = new_notes(60)
    write_table(notes, tmp_path / "notes.parquet")

    def remaining(**columns):
        listed = table(tmp_path / "list.parquet", **columns)
        corpus = TextCorpus(
            [tmp_path / "notes.parquet"],
            settings=HALF,
            exclusions=read_exclusions([listed]),
        )
        return read(corpus), corpus

    return notes, remaining


@pytest.mark.parametrize("kind", ["patient_id", "note_id"])
def test_what_is_excluded_is_never_read(excluded, kind):
    notes, remaining = excluded
    chosen = notes[notes["patient_id"].isin(["p3", "p8"])]
    found, corpus = remaining(**{kind: list(chosen[kind])})
    out = {line for text in chosen["text"] for line in text.splitlines()}
    others = {
        line
        for text in notes["text"].drop(chosen.index)
        for line in text.splitlines()
    }
    assert not set(found) & (out - others)
    assert set(found) == others
    assert corpus.counts[f"documents excluded by {kind}"] == 4
    assert corpus.describe()["exclusions"] == {
        kind: {"listed": len(set(chosen[kind])), "not found": 0}
    }


def test_of_a_cohort_what_is_not_on_the_train_side_is_excluded(excluded):
    _, remaining = excluded
    _, corpus = remaining(
        patient_id=["p0", "p1", "p2", "p3"],
        split=["train", "val", "test", None],
    )
    assert corpus.counts["documents excluded by patient_id"] == 4


def test_ids_are_compared_as_strings(tmp_path):
    rows = table(
        tmp_path / "notes.parquet",
        patient_id=[1, 2, 3, 4] * 5,
        text=numbered(20),
    )
    listed = table(tmp_path / "list.csv", patient_id=["2", "4"])
    corpus = TextCorpus(
        [rows], settings=HALF, exclusions=read_exclusions([listed])
    )
    assert (
        sum(corpus.exclusions.reason(d) is not None for d in documents(corpus))
        == 10
    )
    named = CorpusSettings(patient_id="mrn", held_out=0.5)
    gaps = table(
        tmp_path / "gaps.parquet", mrn=[1, 2, None, 4] * 5, text=numbered(20)
    )
    corpus = TextCorpus(
        [gaps], settings=named, exclusions=read_exclusions([listed])
    )
    reasons = [corpus.exclusions.reason(d) for d in documents(corpus)]
    assert reasons[:4] == [
        None,
        "excluded by patient_id",
        "without the patient_id that exclusion needs",
        "excluded by patient_id",
    ]


@pytest.mark.parametrize("column", ["patient_id", "SUBJECT_ID", "mrn"])
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_ids_with_leading_zeros_are_excluded_under_any_column_name(
    tmp_path, column, ending
):
    ids = ["0012", "12", "P7", "0013"] * 5
    rows = table(
        tmp_path / f"notes{ending}", **{column: ids, "text": numbered(20)}
    )
    listed = table(tmp_path / f"list{ending}", **{column: ["0012", " p7"]})
    corpus = TextCorpus(
        [rows], settings=HALF, exclusions=read_exclusions([listed])
    )
    found = read(corpus)
    assert found == [
        text
        for text, i in zip(numbered(20), ids, strict=True)
        if i in ("12", "0013")
    ]
    assert corpus.counts["documents excluded by patient_id"] == 10
    assert corpus.describe()["exclusions"] == {
        "patient_id": {"listed": 2, "not found": 0}
    }


@pytest.mark.parametrize("ending", [".txt", ".TXT", ".txt.gz"])
def test_the_whole_name_of_a_file_is_the_id_of_its_note(tmp_path, ending):
    folder = tmp_path / "notes"
    folder.mkdir()
    for number, text in enumerate(numbered(20)):
        content = (
            gzip.compress(text.encode())
            if ending.endswith(".gz")
            else text.encode()
        )
        (folder / f"{number:02}.2020{ending}").write_bytes(content)
    listed = table(tmp_path / "list.csv", note_id=["07.2020"])
    corpus = TextCorpus(
        [folder], settings=HALF, exclusions=read_exclusions([listed])
    )
    assert read(corpus) == [
        text for n, text in enumerate(numbered(20)) if n != 7
    ]
    assert corpus.describe()["exclusions"]["note_id"]["not found"] == 0


def test_excluded_ids_that_were_not_found_are_counted(tmp_path):
    ids = [str(number) for number in range(20)]
    rows = table(tmp_path / "notes.csv", patient_id=ids, text=numbered(20))
    listed = table(
        tmp_path / "list.csv",
        patient_id=["0002", "2", "=A1"],
        STAY=["", "", "7"],
    )
    corpus = TextCorpus(
        [rows], settings=HALF, exclusions=read_exclusions([listed])
    )
    list(corpus)
    assert corpus.describe()["exclusions"] == {
        "patient_id": {"listed": 3, "not found": 2},
        "stay_id": {"listed": 1, "not found": 1},
    }


def test_a_line_that_is_no_row_costs_no_other_line(tmp_path, caplog):
    texts = numbered(20)
    lines = [f"{n},{text}" for n, text in enumerate(texts)]
    (tmp_path / "notes.csv").write_text(
        "\n".join(["patient_id,text", *lines, "only-one-field"])
    )
    corpus = TextCorpus([tmp_path / "notes.csv"], settings=HALF)
    assert read(corpus) == texts
    assert corpus.counts["unreadable lines"] == 1
    assert "notes.csv line 22: " in caplog.text
    assert "only-one-field" not in caplog.text
    with pytest.raises(
        TableError, match=r"notes\.csv line 22: .*; correct the list"
    ):
        read_exclusions([tmp_path / "notes.csv"])


def test_a_table_without_a_header_is_refused_without_quoting_it(tmp_path):
    (tmp_path / "notes.csv").write_text("Zebrafinch,well\nOther,ill\n")
    for settings in (CorpusSettings(), CorpusSettings(text="TEXT")):
        with pytest.raises(
            TableError, match=r"^notes\.csv has no column '\w+'"
        ) as e:
            TextCorpus([tmp_path / "notes.csv"], settings=settings)
        assert "zebrafinch" not in str(e.value).casefold()


def test_a_named_column_that_is_not_there_is_refused(tmp_path):
    rows = table(
        tmp_path / "notes.csv", who=["1", "2"] * 10, text=numbered(20)
    )
    with pytest.raises(
        TableError, match=r"notes\.csv has no column 'SUBJEKT'"
    ):
        TextCorpus([rows], settings=CorpusSettings(patient_id="SUBJEKT"))


def documents(corpus):
    return [
        d for file in corpus.files for d in file.documents(corpus.settings)
    ]


def test_exclusion_needs_the_ids_it_goes_by(tmp_path):
    by_patient = read_exclusions(
        [table(tmp_path / "list.csv", patient_id=["1"], note_id=["7"])]
    )
    rows = table(tmp_path / "notes.csv", note_id=["7", "8"], text=numbered(2))
    wanted = (
        r"^notes\.csv has no patient_id, .*name it with `patient_id='NAME'`$"
    )
    with pytest.raises(TextCorpusError, match=wanted):
        TextCorpus([rows], exclusions=by_patient)
    (tmp_path / "plain.txt").write_text("text")
    with pytest.raises(
        TextCorpusError, match=r"^plain\.txt has no patient_id"
    ):
        TextCorpus([tmp_path / "plain.txt"], exclusions=by_patient)
    # The files of a folder are notes with the names of the files.
    (tmp_path / "notes").mkdir()
    for number, text in enumerate(numbered(20)):
        (tmp_path / "notes" / f"{number}.txt").write_text(text)
    by_note = read_exclusions([table(tmp_path / "list2.csv", note_id=["7"])])
    corpus = TextCorpus(
        [tmp_path / "notes"], settings=HALF, exclusions=by_note
    )
    assert numbered(1, start=7)[0] not in read(corpus)
    assert corpus.counts["documents excluded by note_id"] == 1


# --- bad input


def test_bad_sources_are_named(tmp_path):
    (tmp_path / "notes.pdf").write_bytes(b"%PDF")
    (tmp_path / "folder").mkdir()
    for source, wanted in (
        (tmp_path / "none.txt", r"none\.txt: no such file; expected \.csv, "),
        (
            tmp_path / "notes.pdf",
            r"^notes\.pdf: expected a table that ends in \.csv, .*\.txt, ",
        ),
        (
            tmp_path / "folder",
            r"folder: no table in this folder; expected \.csv, .*\.txt, ",
        ),
    ):
        with pytest.raises(TableError, match=wanted):
            TextCorpus([source])
    rows = table(tmp_path / "notes.csv", note=["x"])
    with pytest.raises(TableError, match=r"^notes\.csv has no column 'text'"):
        TextCorpus([rows])


def test_files_of_other_kinds_in_a_folder_are_counted(tmp_path, caplog):
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.pdf").write_bytes(b"%PDF")
    TextCorpus([tmp_path])
    assert "1 files of other kinds are not read" in caplog.text


def test_an_empty_corpus(tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(
        TextCorpusError, match=r"has no document to read: its files are empty$"
    ):
        list(TextCorpus([tmp_path / "empty.txt"]))
    rows = table(tmp_path / "notes.parquet", text=[" ", None])
    with pytest.raises(
        TextCorpusError,
        match="no document to read: 2 documents, 2 documents without",
    ):
        list(TextCorpus([rows]))


def test_a_corpus_that_is_all_excluded(tmp_path):
    rows = table(
        tmp_path / "notes.csv", patient_id=["1", "2"], text=numbered(2)
    )
    exclusions = read_exclusions(
        [table(tmp_path / "list.csv", patient_id=["2", "1"])]
    )
    wanted = (
        "no document to read: 2 documents, 2 documents excluded by patient_id$"
    )
    with pytest.raises(TextCorpusError, match=wanted):
        list(TextCorpus([rows], exclusions=exclusions))


def test_a_list_that_excludes_nothing(tmp_path):
    wanted = "excludes nothing: expected a column patient_id, stay_id, note_id with ids outside"
    strange = table(tmp_path / "list.csv", name=["x"])
    with pytest.raises(
        TextCorpusError, match=rf"^list\.csv {wanted} the train side$"
    ):
        read_exclusions([strange])
    train = table(tmp_path / "cohort.csv", patient_id=["1"], split=["train"])
    with pytest.raises(
        TextCorpusError, match=rf"^cohort\.csv {wanted} the train side$"
    ):
        read_exclusions([train])


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "notes.txt").write_bytes(np.random.default_rng(0).bytes(20000))
    with pytest.raises(
        TextCorpusError, match=r"no document to read: .*that are not UTF-8"
    ):
        list(TextCorpus([tmp_path / "notes.txt"]))


def test_a_byte_order_mark_names_the_encoding(tmp_path):
    text = "\n\n".join(numbered(500))
    (tmp_path / "wide.txt").write_bytes(text.encode("utf-16"))
    (tmp_path / "usual.txt").write_text(text)
    wide = list(TextCorpus([tmp_path / "wide.txt"]))
    assert wide == list(TextCorpus([tmp_path / "usual.txt"]))


def test_a_broken_gzip_file(tmp_path):
    whole = gzip.compress("\n\n".join(numbered(500)).encode())
    (tmp_path / "cut.txt.gz").write_bytes(whole[:-100])
    (tmp_path / "no.txt.gz").write_bytes(b"plain text")
    for name in ("cut", "no"):
        with pytest.raises(
            TableError, match=rf"^{name}\.txt\.gz cannot be read to its end \("
        ):
            list(TextCorpus([tmp_path / f"{name}.txt.gz"]))


@pytest.mark.parametrize(
    ("name", "value", "legal"),
    [
        ("held_out", 0, "a number above 0"),
        ("held_out", 1.0, "a number below 1"),
        ("lines", -1, "a number of at least 0"),
        ("lines", True, "a whole number"),
        ("text", 3, "text"),
    ],
)
def test_settings_out_of_range_are_refused(name, value, legal):
    with pytest.raises(
        ValueError, match=f"^{name}: expected {legal}, got {value!r}$"
    ):
        CorpusSettings(**{name: value})
