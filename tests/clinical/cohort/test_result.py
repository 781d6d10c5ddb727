"""What a cohort carries with it: definition, flow, figure, splits."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pandas as pd
import pytest

from clinical.cohort.build import build_cohort
from clinical.cohort.definition import load_definition
from clinical.cohort.result import Cohort, issues_path
from clinical.stays.patients import check_disjoint
from domainbert.tables import TableError, write_table
from domainbert.tables.frames import read_metadata

from .conftest import Hospital

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Three patients: a return, a newborn, a death."""
    folder = tmp_path_factory.mktemp("result")
    hospital = Hospital(folder / "hospital")
    stay = hospital.stay(0, 3)
    hospital.stay(10, 12)
    hospital.stay(0, 3, patient="8", kind="NEWBORN")
    hospital.stay(0, 3, patient="9", HOSPITAL_EXPIRE_FLAG="1")
    hospital.note(stay, "summary", day=3)
    return hospital.build(out=folder / "cohort.parquet")


def test_the_file_carries_its_definition_and_its_flow(cohort):
    metadata = read_metadata(cohort.path)
    assert metadata["clinical.definition"] == load_definition().text
    assert metadata["clinical.definition_sha256"] == load_definition().sha256
    again = Cohort.open(cohort.path)
    assert again.summary == cohort.summary
    assert again.flow.equals(cohort.flow)
    assert issues_path(cohort.path).is_file()


def test_a_cohort_shows_its_counts(cohort):
    assert repr(cohort) == (
        "Cohort(4 admissions; kept: 1 stays of 1 patients, 1 readmitted)"
    )


def test_the_flow_in_order(cohort):
    removed = [
        (row.step, row.removed, row.left) for row in cohort.flow.itertuples()
    ]
    assert removed[0] == ("admissions", 0, 4)
    assert [row for row in removed if row[1]] == [
        ("newborn", 1, 3), ("died_in_hospital", 1, 2), ("no_text", 1, 1),
    ]  # fmt: skip


def test_the_flow_as_json(cohort, tmp_path):
    path = tmp_path / "flow.json"
    cohort.save_flow_json(path)
    flow = json.loads(path.read_text())
    assert flow == cohort.summary
    assert flow["definition"]["sha256"] == load_definition().sha256
    assert flow["kept"] == {
        "stays": 1, "patients": 1, "readmitted": 1, "transfers": 0, "died_within_horizon": 0,
    }  # fmt: skip


def test_single_centre_is_said_first(cohort):
    assert cohort.caveats[0].startswith(
        "Readmissions to other hospitals are not in this data"
    )


def test_excluded_rows_have_no_label_and_no_side(cohort):
    frame = cohort.to_frame()
    out = frame[frame["exclusion"].notna()]
    assert len(out) == 3
    assert (
        out[["readmitted", "days_to_readmission", "split"]]
        .isna()
        .all(axis=None)
    )


def test_an_event_is_drawn_as_it_is_written(cohort):
    odd = {**cohort.summary["definition"], "event": "</text> $x^{$ & <b>"}
    drawn = replace(
        cohort, summary={**cohort.summary, "definition": odd}
    ).flow_svg()
    assert any(line.startswith(odd["event"]) for line in every_text(drawn))


def test_another_table_is_no_cohort(tmp_path):
    path = tmp_path / "table.parquet"
    write_table(pd.DataFrame({"text": ["a"]}), path)
    with pytest.raises(
        TableError, match="was not written by build_cohort: it carries no flow"
    ):
        Cohort.open(path)


def test_a_failed_build_leaves_the_old_file(cohort):
    before = cohort.path.read_bytes()
    with pytest.raises(TableError):
        build_cohort(cohort.path.parent / "nowhere", out=cohort.path)
    assert cohort.path.read_bytes() == before
    assert len(list(cohort.path.parent.glob("*cohort*"))) == 2


def every_text(svg):
    """Lines of a drawn flow, after a check that every box is on the page and none overlap."""
    page = ElementTree.fromstring(svg)
    background, *rects = (
        tuple(
            float(rect.get(side, 0)) for side in ("x", "y", "width", "height")
        )
        for rect in page.iter(f"{SVG}rect")
    )
    boxes = [(x, y, x + width, y + height) for x, y, width, height in rects]
    for number, (left, top, right, bottom) in enumerate(boxes):
        assert 0 <= left < right <= background[2]
        assert 0 <= top < bottom <= background[3]
        for other in boxes[number + 1 :]:
            assert (
                right < other[0]
                or other[2] < left
                or bottom < other[1]
                or other[3] < top
            )
    for text in page.iter(f"{SVG}text"):
        x, y = float(text.get("x")), float(text.get("y"))
        end = x + 6.5 * len(text.text)  # of letters 12 pixels high
        assert any(
            x > box[0] and end < box[2] and box[1] < y < box[3]
            for box in boxes
        )
    return [text.text for text in page.iter(f"{SVG}text")]


def test_the_figure_of_a_small_flow(cohort):
    texts = every_text(cohort.flow_svg())
    assert "Admissions (n = 4)" in texts
    assert {"Cohort (n = 1)", "patients: 1", "prediction at discharge"} <= set(
        texts
    )
    assert not any("age" in text for text in texts)


def test_the_figure_of_the_largest_flow(cohort):
    summary = json.loads(json.dumps(cohort.summary))
    left = 20_000_000
    for row in summary["steps"]:
        row["removed"] = 0 if row["step"] == "admissions" else 1_234_567
        left -= row["removed"]
        row["left"] = left
    counts = {
        "stays": 12_345_678,
        "patients": 9_876_543,
        "readmitted": 1_234_567,
    }
    summary["kept"] |= counts
    summary["splits"] = dict.fromkeys(("train", "val", "test"), counts)
    summary |= {"notes": "early", "hours": 48.0}
    texts = every_text(replace(cohort, summary=summary).flow_svg())
    assert "prediction 48 h after admission" in texts
    assert (
        sum(text.startswith("   ") for text in texts)
        == len(summary["steps"]) - 1
    )


def many_patients(hospital, count, *, start=0):
    for number in range(start, start + count):
        hospital.stay(0, 3, patient=str(number), id=f"{number}a")
        if number % 4 == 0:
            hospital.stay(9, 12, patient=str(number), id=f"{number}b")


def test_splits_are_by_patient_and_stay_when_data_is_added(hospital):
    many_patients(hospital, 1500)
    first = hospital.build().to_frame()
    check_disjoint(first)
    many_patients(hospital, 500, start=1500)
    second = hospital.build().to_frame()
    sides = second.set_index("stay_id")["split"]
    assert sides[first["stay_id"]].tolist() == first["split"].tolist()
    assert (
        (second.groupby("split")["patient_id"].nunique() / 2000)
        .between(0.08, 0.83)
        .all()
    )
    # Every side has its share of each label, but for chance: three standard errors.
    share = second.groupby("split")["readmitted"].agg(["mean", "size"])
    error = (0.2 * 0.8 / share["size"]) ** 0.5
    assert ((share["mean"] - 0.2).abs() < 3 * error).all()
    other = hospital.build(seed=1).to_frame()
    assert (other["split"] != second["split"]).any()
