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
