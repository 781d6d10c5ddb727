"""The report: one self-contained page, everything escaped, no note in it; and its JSON twin."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from clinical.evaluation.comparison import Comparison
from clinical.evaluation.groups import by_group
from clinical.evaluation.intervals import evaluate
from clinical.report.figures import plot_roc
from clinical.report.page import write_metrics, write_report
from domainbert.statistics.figures import save_figure

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


def measure(frame, **options):
    options = {"patients": frame["patient_id"], "bootstrap": 20} | options
    return evaluate(frame["readmitted"], frame["probability"], **options)


def compared(scored, evaluations, **changes):
    """A comparison; without groups of patients by default."""
    bare = scored[["patient_id", "readmitted", "probability"]]
    given = {"groups": by_group(bare), "caveats": []} | changes
    return Comparison(stays=scored, evaluations=evaluations, scores={}, **given)


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
        cells = next(row for row in self.rows if row and row[0].strip().startswith(name))
        return [cell.strip() for cell in cells]


def full_report(folder, scored, **changes):
    figure = plot_roc(scored["readmitted"], {"model": scored["probability"]})
    paths = [save_figure(figure, folder / "roc.png"), save_figure(figure, folder / "odd_name.svg")]
    measured = {
        "evaluations": {
            "model": measure(scored, threshold=0.4),
            "bag of words": measure(scored.assign(probability=0.2)),
        },
        "groups": by_group(scored, bootstrap=5),
        "caveats": ["Its patients were not checked."],
    }
    arguments = {
        "title": "Readmission",
        "figures": paths,
        "flow": pd.DataFrame({"step": ["admissions", "kept"], "stays": [58976, 300]}),
        "facts": {"encoder": "tiny", "c": 2.0, "seed": 0},
    }
    measured |= {name: changes.pop(name) for name in measured.keys() & changes.keys()}
    return write_report(folder / "report", compared(scored, **measured), **arguments | changes)


def test_the_page_is_one_file_that_reaches_for_nothing(tmp_path, scored):
    path = full_report(tmp_path, scored)
    assert path == tmp_path / "report" / "report.html"
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    page = Page(path)
    assert not page.open
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "iframe", "object"})
    sources = [attrs["src"] for _, attrs in page.tags if "src" in attrs]
    assert all(attrs["href"].startswith("#") for _, attrs in page.tags if "href" in attrs)
    assert len(sources) == 2
    assert all(source.startswith("data:image/") for source in sources)
    assert not re.search(r"https?:|url\(|@import", page.source)
    png = next(source for source in sources if "image/png" in source)
    assert base64.b64decode(png.split(",")[1]) == (tmp_path / "roc.png").read_bytes()


def test_numbers_stand_beside_the_baselines_with_their_intervals(tmp_path, scored):
    found = measure(scored, threshold=0.4)
    page = Page(full_report(tmp_path, scored))
    assert any(row[1:3] == [" model", " bag of words"] for row in page.rows)
    name, model, baseline = page.row("AUROC")
    area = found.auroc
    assert model.split() == [f"{area.value:.3f}", f"{area.low:.3f}", "to", f"{area.high:.3f}"]
    assert baseline.split()[0] == "0.500"
    assert "0.5 is chance" in name
    assert page.row("Recall at 80%")[2] == "–"  # equal risks cannot reach it
    assert page.row("Prevalence")[1].split()[0] == f"{found.prevalence.value:.3f}"
    shift = found.calibration_in_the_large.value
    assert page.row("Calibration in the large")[1].split()[0] == f"{shift:.3f}".replace("-", "−")
    assert "Mean squared difference" in page.row("Brier score")[0]


def test_tables_facts_captions_and_limits_are_shown(tmp_path, scored):
    page = Page(full_report(tmp_path, scored))
    assert page.row("admissions")[1] == "58,976"
    assert "<h3>Not shown by these numbers</h3>" in page.source
    assert "<li>Its patients were not checked.</li>" in page.source
    assert any(row[0].strip() == "sex: F" for row in page.rows)
    for text in ("<dt>encoder</dt><dd>tiny</dd>", "ROC curve.", "odd name", "Intended use"):
        assert text in page.source


def test_what_is_not_given_leaves_no_heading(tmp_path, scored):
    page = Page(
        write_report(
            tmp_path, compared(scored, {"model": measure(scored, bootstrap=0)}), title="Bare"
        )
    )
    headings = re.findall(r"<h2>(.*?)</h2>", page.source)
    assert headings == ["Summary", "Intended use", "Methods", "How good the risks are", "Limits"]
    assert "No intervals were requested" in page.source
    assert "There is no alert threshold" in page.source


def test_groups_that_are_all_too_small_leave_a_sentence_instead_of_blank_rows(tmp_path, scored):
    few = scored.head(40)
    page = Page(full_report(tmp_path, few, groups=by_group(few, bootstrap=0)))
    assert "No group has enough stays to be measured." in page.source
    assert not any("sex" in row[0] for row in page.rows)


def test_one_outcome_is_explained(tmp_path, scored):
    found = measure(scored.assign(readmitted=0))
    source = Page(write_report(tmp_path, compared(scored, {"model": found}), title="None")).source
    assert "0 of 300 stays are readmitted" in source
    assert "80% precision is not reached at any threshold" in source


HOSTILE = "<script>alert(1)</script><img src=http://evil.example/x>"


def test_hostile_strings_are_escaped_everywhere(tmp_path, scored):
    page = Page(
        full_report(
            tmp_path,
            scored,
            title=HOSTILE,
            evaluations={"model": measure(scored), HOSTILE: measure(scored)},
            groups=by_group(scored.assign(sex=HOSTILE), bootstrap=0),
            flow=pd.DataFrame({HOSTILE: [HOSTILE]}),
            facts={HOSTILE: HOSTILE},
            caveats=[HOSTILE],
        )
    )
    tags = [tag for tag, _ in page.tags]
    assert "script" not in tags
    assert tags.count("img") == 2  # the two figures
    assert page.source.count("&lt;script&gt;alert(1)") > 10
    assert "<script" not in page.source


@pytest.mark.parametrize(
    ("argument", "frame"),
    [
        ("flow", pd.DataFrame({"text": [CANARY]})),
        ("flow", pd.DataFrame({"Text": [CANARY]})),
        ("flow", pd.DataFrame({"reason": [CANARY * 10]})),
        ("groups", pd.DataFrame({"group": [[CANARY]], "auroc": [0.5], "n": [60]})),
        ("groups", pd.DataFrame({"group": [np.array([CANARY])], "auroc": [0.5], "n": [60]})),
    ],
)
def test_a_table_that_may_hold_notes_is_refused_without_quoting_it(
    tmp_path, scored, argument, frame
):
    with pytest.raises(ValueError, match=r"which a report must not") as e:
        full_report(tmp_path, scored, **{argument: frame})
    assert "CANARY" not in repr([e.value, e.value.__context__])
    assert not (tmp_path / "report").exists()


def test_notes_of_the_cohort_do_not_reach_page_or_metrics(tmp_path, scored):
    cohort = scored.assign(text=[[CANARY]] * len(scored))
    groups = by_group(cohort, bootstrap=0)
    page = full_report(tmp_path, cohort, groups=groups)
    metrics = write_metrics(tmp_path, compared(cohort, {"model": measure(cohort)}, groups=groups))
    for path in (page, metrics):
        assert "CANARY" not in path.read_text(encoding="utf-8")


def test_an_unknown_figure_is_refused(tmp_path, scored):
    with pytest.raises(ValueError, match=r"notes.txt is not a figure; expected .png"):
        full_report(tmp_path, scored, figures=[tmp_path / "notes.txt"])


def test_a_second_run_replaces_the_page(tmp_path, scored):
    full_report(tmp_path, scored, title="First")
    second = full_report(tmp_path, scored, title="Second")
    assert "<h1>Second</h1>" in second.read_text(encoding="utf-8")
    assert [p.name for p in second.parent.iterdir()] == ["report.html"]


def test_metrics_keep_their_keys_and_every_digit(tmp_path, scored):
    found = measure(scored, threshold=0.4)
    groups = by_group(scored, bootstrap=0)
    path = write_metrics(
        tmp_path / "new",
        compared(scored, {"model": found, "bag of words": found}, groups=groups),
        facts={"c": np.float32(2.5), "stays": np.int64(3), "folder": tmp_path, "none": None},
    )
    content = json.loads(path.read_text(encoding="utf-8"))
    assert list(content) == [
        *("version", "model", "baselines", "differences", "groups", "decision_curve"),
        *("net_benefit", "alerts", "periods", "drift", "facts", "verdicts", "caveats"),
    ]
    assert content["model"] == found.to_dict() == content["baselines"]["bag of words"]
    assert content["model"]["auroc"]["value"] == found.auroc.value
    assert content["groups"][0]["auroc"] == groups["auroc"][0]
    assert content["groups"][0]["auroc_low"] is None
    assert content["groups"][0]["n"] == int(groups["n"][0])
    assert content["facts"] == {"c": 2.5, "stays": 3, "folder": str(tmp_path), "none": None}
    bare = json.loads(
        write_metrics(tmp_path, compared(scored, {"model": found})).read_text(encoding="utf-8")
    )
    assert list(bare) == list(content)
    assert path.read_text(encoding="utf-8").endswith("}\n")
