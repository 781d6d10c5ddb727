"""The report in a real browser: narrow and wide, for assistive technology, and on paper."""

import base64
import io
import json
import re

import numpy as np
import pandas as pd
import pytest

from clinical.evaluation.diagnoses import (
    DiagnosisComparison,
    evaluate_diagnoses,
)
from clinical.report.facts import Hospital, answered
from clinical.report.page import write_diagnoses, write_report
from tests.clinical.conftest import serious_faults, set_scheme


@pytest.fixture(scope="module")
def report(about, comparison, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    hospital = Hospital(funding="The state.", discharges_per_day=20.0)
    full = {"about": answered(about, hospital), "hospital": hospital}
    flow = pd.DataFrame(
        {"reason": ["all admissions"], "removed": [0], "left": [900]}
    )
    return write_report(
        comparison,
        folder,
        title="A report",
        facts={"model": "tiny"},
        flow=flow,
        **full,
    )


def open_page(browser, report, width):
    size = {
        "width": width,
        "height": 800,
        "deviceScaleFactor": 1,
        "mobile": False,
    }
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(f"file://{report}")


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_scrolls_sideways(browser, report, width):
    open_page(browser, report, width)
    needed, shown = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert needed <= shown
    outside = browser.execute_script(
        "return [...document.querySelectorAll('body *')]"
        ".filter(e => !e.closest('thead') && e.getBoundingClientRect().right > arguments[0] + 1)"
        ".map(e => e.outerHTML.slice(0, 80))",
        shown,
    )
    assert outside == []


@pytest.mark.parametrize(
    ("width", "scheme"), [(360, "light"), (1280, "light"), (1280, "dark")]
)
def test_axe_finds_no_serious_fault(browser, report, width, scheme):
    set_scheme(browser, scheme)
    open_page(browser, report, width)
    assert serious_faults(browser) == []


def test_the_printed_pages_have_every_figure(browser, report):
    pypdf, image = (
        pytest.importorskip("pypdf"),
        pytest.importorskip("PIL.Image"),
    )
    open_page(browser, report, 1280)
    printed = browser.execute_cdp_cmd(
        "Page.printToPDF", {"printBackground": True}
    )
    pages = pypdf.PdfReader(
        io.BytesIO(base64.b64decode(printed["data"]))
    ).pages
    sizes = sorted(
        picture.image.size for page in pages for picture in page.images
    )
    sources = re.findall(
        r'src="data:image/png;base64,([^"]+)"', report.read_text("utf-8")
    )
    figures = [
        image.open(io.BytesIO(base64.b64decode(source))) for source in sources
    ]
    assert len(figures) == 4
    assert sizes == sorted(figure.size for figure in figures)
    text = " ".join(page.extract_text() for page in pages)
    for heading in (
        "Summary",
        "The 31 source attributes",
        "TRIPOD+AI",
        "Open questions",
        "Limits",
    ):
        assert heading in text
    first = pages[0].extract_text()
    assert "Decision" in first  # the summary is one page
    assert "Not approved" in first


def test_the_page_stands_alone_and_its_headings_are_in_order(browser, report):
    open_page(browser, report, 1280)
    assert (
        browser.execute_script("return document.documentElement.lang") == "en"
    )
    assert browser.execute_script("return document.scripts.length") == 0
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name.slice(0, 11))"
    )
    assert set(loaded) <= {"data:image/"}
    levels = [
        int(level)
        for level in browser.execute_script(
            "return [...document.querySelectorAll('h1,h2,h3,h4')].map(e => e.tagName[1])"
        )
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(
        after - before <= 1
        for before, after in zip(levels, levels[1:], strict=False)
    )
    broken = browser.execute_script(
        "return [...document.querySelectorAll('a')].filter(a => !document.querySelector("
        "a.getAttribute('href'))).map(a => a.href)"
    )
    assert broken == []
    texts = browser.execute_script(
        "return [...document.images].map(i => i.alt)"
    )
    assert all(len(text) > 30 and re.search(r"\d", text) for text in texts)


@pytest.fixture(scope="module")
def diagnoses(tmp_path_factory):
    """The report of a model of 30 groups, some of them too rare to be measured."""
    random = np.random.default_rng(2)
    shares = np.linspace(0.02, 0.4, 30)
    labels = (random.random((200, 30)) < shares).astype(float)
    values = np.clip(0.5 * labels + random.random(labels.shape) / 2, 0, 1)
    groups = [f"I{number}" for number in range(10, 40)]
    evaluations = {
        name: evaluate_diagnoses(
            labels,
            numbers,
            groups=groups,
            patients=range(200),
            thresholds={groups[-1]: 0.5},
            bootstrap=30,
        )
        for name, numbers in (("model", values), ("TF-IDF", values[::-1]))
    }
    names = {groups[-1]: "A <b>long</b> name of a group of codes"}
    comparison = DiagnosisComparison(evaluations, names, ["A caveat."])
    folder = tmp_path_factory.mktemp("diagnoses")
    return write_diagnoses(
        comparison, folder, title="Codes", facts={"model": "tiny"}
    )


@pytest.mark.parametrize("width", [360, 1280])
def test_page_of_diagnoses_is_whole(browser, diagnoses, width):
    open_page(browser, diagnoses, width)
    needed, shown = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert needed <= shown
    assert serious_faults(browser) == []
    assert "<b>long</b>" not in diagnoses.read_text("utf-8")
    metrics = json.loads(diagnoses.with_name("metrics.json").read_text())
    rare = [row for row in metrics["groups"] if row["positive"] < 20]
    assert rare
    assert all(row["auroc"] is None for row in rare)


def test_table_of_groups_sorts_by_each_column(browser, diagnoses):
    open_page(browser, diagnoses, 1280)
    read = (
        "return [...document.querySelectorAll('#groups tbody tr')]"
        ".map(row => row.children[arguments[0]].textContent)"
    )
    click = "document.querySelectorAll('#groups button')[arguments[0]].click()"
    for column in (2, 3):
        browser.execute_script(click, column)
        cells = browser.execute_script(read, column)
        numbers = [
            float(cell.split()[0]) for cell in cells if cell[0].isdigit()
        ]
        assert numbers == sorted(numbers, reverse=True)
        # What is not known comes last.
        assert all(cell == "–" for cell in cells[len(numbers) :])
        browser.execute_script(click, column)
        again = browser.execute_script(read, column)
        assert next(cell for cell in again if cell[0].isdigit()) == min(
            cells[: len(numbers)], key=lambda cell: float(cell.split()[0])
        )
    logs = browser.get_log("browser")
    assert not [entry for entry in logs if "Content Security" in str(entry)]
