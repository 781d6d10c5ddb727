"""The documentation site builds without a warning, and its pages fetch nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_it_builds_without_warnings_and_its_pages_fetch_nothing(tmp_path):
    options = [
        "-b",
        "html",
        "-W",
        "--keep-going",
        "--quiet",
        "-d",
        tmp_path / "trees",
    ]
    command = [
        sys.executable,
        "-m",
        "sphinx",
        *options,
        ROOT / "docs",
        tmp_path / "site",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text("utf-8")
        fetched = re.findall(
            r"<(?:script|img|iframe)[^>]*\ssrc=\"(?:https?:)?//[^\"]*", text
        )
        styles = re.findall(
            r"<link[^>]*rel=\"stylesheet\"[^>]*href=\"(?:https?:)?//[^\"]*",
            text,
        )
        assert not fetched + styles, page.name
