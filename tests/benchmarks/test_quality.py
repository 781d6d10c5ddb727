import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def quality(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return runpy.run_path(str(ROOT / "benchmarks" / "quality.py"))


def test_pages_have_the_scores_of_the_shipped_models(
    quality, tmp_path, monkeypatch
):
    """Without a new measurement of readmission, its rows stay and the others are rewritten."""
    readme = tmp_path / "README.md"
    page = tmp_path / "benchmarks.md"
    shutil.copy(ROOT / "docs/lab/benchmarks.md", page)
    text = (ROOT / "README.md").read_text("utf-8")
    stale = re.sub(r"(\| `qa` .*\| F1 \|).*", r"\1 0.999 |  |", text)
    assert stale != text
    readme.write_text(stale, "utf-8")
    options = ["--biomed", "--page", str(page), "--readme", str(readme)]
    monkeypatch.setattr(sys, "argv", ["quality.py", *options])
    quality["main"]()
    assert readme.read_text("utf-8") == text
    written = (ROOT / "docs/lab/benchmarks.md").read_text("utf-8")
    assert page.read_text("utf-8") == written


@pytest.mark.slow
def test_without_the_data_it_says_what_is_left_out_and_changes_no_page(
    quality, tmp_path, monkeypatch, capsys
):
    module = quality["main"].__globals__
    monkeypatch.setitem(module, "TRAINING", (("hospital", 100, 1, True),))
    monkeypatch.setitem(module, "FRESH_STAYS", 40)
    monkeypatch.setenv("DOMAINBERT_DATA", str(tmp_path / "no-data"))
    readme = tmp_path / "README.md"
    page = tmp_path / "benchmarks.md"
    for path in (readme, page):
        path.write_text("<!-- headline -->\nas it was\n<!-- /headline -->\n")
    options = ["--page", str(page), "--readme", str(readme)]
    monkeypatch.setattr(sys, "argv", ["quality.py", *options])
    quality["main"]()
    lines = capsys.readouterr()
    assert "left out: readmission-diabetes130" in lines.out + lines.err
    assert "readmission-demo" in lines.out
    for path in (readme, page):
        assert "as it was" in path.read_text()
