"""The report: one self-contained page, everything escaped, no note in it; and its JSON twin."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from clinical.evaluation.comparison import measure
from clinical.evaluation.decision import Point
from clinical.report.page import write_metrics, write_report

CANARY = "CANARY the patient was admitted with chest pain"


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(0)
    p = rng.beta(1, 4, 300)
    return pd.DataFrame(
        {
            "patient_id": rng.integers(0, 200, 300),
            "readmitted": (rng.random(300) < p).astype(int),
            "probability": p,
            "sex": rng.choice(["F", "M"], 300),
        }
    )


def compared(scored, *, bootstrap=20, **changes):
    """The model beside a baseline that gives everybody the same risk, at one threshold."""
    risks = {
        "model": scored["probability"].to_numpy(),
        "TF-IDF": np.full(len(scored), 0.2),
    }
    given = {
        "risks": risks,
        "points": {"own": Point(0.4, "validation")},
        "caveats": ["Its patients were not checked."],
    } | changes
    given["thresholds"] = dict.fromkeys(given["risks"], 0.4)
    return measure(scored, given.pop("risks"), bootstrap=bootstrap, **given)


class Page(HTMLParser):
    """Tags with their attributes, and the text of table rows."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.open, self.rows = [], [], []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"} and self.rows:
            self.rows[-1].append("")
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag  # well nested

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += f" {data.strip()}"

    def row(self, name):
        cells = next(
            row for row in self.rows if row and row[0].strip().startswith(name)
        )
        return [cell.strip() for cell in cells]


FLOW = pd.DataFrame({"step": ["admissions", "kept"], "stays": [58976, 300]})


def full_report(folder, scored, *, comparison=None, **changes):
    facts = {"encoder": "tiny", "c": 2.0, "seed": 0}
    arguments = {
        "title": "Readmission",
        "flow": FLOW,
        "facts": facts,
    } | changes
    return write_report(
        comparison or compared(scored), folder / "report", **arguments
    )


def test_the_page_is_one_file_that_reaches_for_nothing(tmp_path, scored):
    path = full_report(tmp_path, scored)
    assert path == tmp_path / "report" / "report.html"
    names = {"calibration.png", "decision_curve.png", "ranking.png"}
    assert {p.name for p in path.parent.iterdir()} == names | {
        "report.html",
        "metrics.json",
    }
    page = Page(path)
    assert not page.open
    assert {tag for tag, _ in page.tags}.isdisjoint(
        {"script", "link", "iframe", "object"}
    )
    sources = [attrs["src"] for _, attrs in page.tags if "src" in attrs]
    assert all(
        attrs["href"].startswith("#")
        for _, attrs in page.tags
        if "href" in attrs
    )
    assert len(sources) == 3
    assert not re.search(r"https?:|url\(|@import", page.source)
    drawn = {
        base64.b64decode(source.removeprefix("data:image/png;base64,"))
        for source in sources
    }
    assert drawn == {(path.parent / name).read_bytes() for name in names}


def test_numbers_stand_beside_the_baselines_with_their_intervals(
    tmp_path, scored
):
    comparison = compared(scored)
    found = comparison.model
    page = Page(full_report(tmp_path, scored, comparison=comparison))
    assert any(row[1:3] == [" model", " TF-IDF"] for row in page.rows)
    name, model, baseline = page.row("AUROC")
    area = found.auroc
    assert model.split() == [
        f"{area.value:.3f}",
        f"{area.low:.3f}",
        "to",
        f"{area.high:.3f}",
    ]
    assert baseline.split()[0] == "0.500"
    assert "0.5 is chance" in name
    assert page.row("Recall at 80%")[2] == "–"  # equal risks cannot reach it
    assert (
        page.row("Prevalence")[1].split()[0] == f"{found.prevalence.value:.3f}"
    )
    shift = found.calibration_in_the_large.value
    assert page.row("Calibration in the large")[1].split()[
        0
    ] == f"{shift:.3f}".replace("-", "−")
    assert "Mean squared difference" in page.row("Brier score")[0]


def test_tables_facts_captions_and_limits_are_shown(tmp_path, scored):
    page = Page(full_report(tmp_path, scored))
    assert page.row("admissions")[1] == "58,976"
    assert "<h3>Not shown by these numbers</h3>" in page.source
    assert "<li>Its patients were not checked.</li>" in page.source
    assert any(row[0].strip() == "sex: F" for row in page.rows)
    for text in (
        "<dt>encoder</dt><dd>tiny</dd>",
        "ROC curves",
        "Intended use",
    ):
        assert text in page.source


def test_what_is_not_given_leaves_no_heading(tmp_path, scored):
    bare = compared(scored.drop(columns="sex"), points={}, bootstrap=0)
    page = Page(write_report(bare, tmp_path, title="Bare"))
    headings = re.findall(r"<h2>(.*?)</h2>", page.source)
    assert headings == [
        *("Summary", "Intended use", "Methods", "How good the risks are"),
        *("What alerts gain and cost", "Over time", "Limits"),
    ]
    assert "No intervals were requested" in page.source
    assert "the alert burden was not measured" in page.source


def test_groups_that_are_all_too_small_leave_a_sentence_instead_of_blank_rows(
    tmp_path, scored
):
    page = Page(full_report(tmp_path, scored.head(40)))
    assert "No group has enough stays to be measured." in page.source
    assert not any("sex" in row[0] for row in page.rows)


def test_one_outcome_is_explained(tmp_path, scored):
    found = compared(scored.assign(readmitted=0))
    source = Page(write_report(found, tmp_path, title="None")).source
    assert "0 of 300 stays have the outcome" in source
    assert "80% precision is not reached at any threshold" in source


HOSTILE = "<script>alert(1)</script><img src=http://evil.example/x>"


def test_hostile_strings_are_escaped_everywhere(tmp_path, scored):
    risks = {
        "model": scored["probability"].to_numpy(),
        HOSTILE: scored["probability"].to_numpy(),
    }
    hostile = compared(
        scored.assign(sex=HOSTILE), risks=risks, caveats=[HOSTILE], bootstrap=5
    )
    flow = pd.DataFrame({HOSTILE: [HOSTILE]})
    options = {"title": HOSTILE, "flow": flow, "facts": {HOSTILE: HOSTILE}}
    page = Page(full_report(tmp_path, scored, comparison=hostile, **options))
    tags = [tag for tag, _ in page.tags]
    assert "script" not in tags
    assert tags.count("img") == 3  # the figures
    assert page.source.count("&lt;script&gt;alert(1)") > 10
    assert "<script" not in page.source


def test_notes_of_the_cohort_do_not_reach_page_or_metrics(tmp_path, scored):
    page = full_report(tmp_path, scored.assign(text=[[CANARY]] * len(scored)))
    for path in (page, page.with_name("metrics.json")):
        assert "CANARY" not in path.read_text(encoding="utf-8")


def test_a_second_run_replaces_the_page(tmp_path, scored):
    full_report(tmp_path, scored, title="First")
    second = full_report(tmp_path, scored, title="Second")
    assert "<h1>Second</h1>" in second.read_text(encoding="utf-8")


def test_metrics_keep_their_keys_and_every_digit(tmp_path, scored):
    comparison = compared(scored, bootstrap=0)
    found, groups = comparison.model, comparison.groups
    write_metrics(tmp_path, comparison, facts={"c": "2.5", "none": None})
    path = tmp_path / "metrics.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert list(content) == [
        *(
            "version",
            "model",
            "baselines",
            "differences",
            "groups",
            "decision_curve",
        ),
        *(
            "net_benefit",
            "alerts",
            "periods",
            "remaining_risk",
            "drift",
            "facts",
            "verdicts",
            "caveats",
        ),
    ]
    assert content["model"] == found.to_dict()
    assert list(content["baselines"]) == ["TF-IDF"]
    assert content["model"]["auroc"]["value"] == found.auroc.value
    assert content["groups"][0]["auroc"] == groups["auroc"][0]
    assert content["groups"][0]["auroc_low"] is None
    assert content["groups"][0]["n"] == int(groups["n"][0])
    assert content["facts"] == {"c": "2.5", "none": None}
    assert path.read_text(encoding="utf-8").endswith("}\n")
