"""The command `biomed` as a whole; each task's commands are tested beside the task."""

from __future__ import annotations

import subprocess
import sys

from typer.testing import CliRunner

from biomed.cli import app
from domainbert import __version__
from domainbert.models.manifest import Scores
from domainbert.models.storage import shipped_models
from domainbert.statistics.bootstrap import Interval


def test_help_names_the_tasks_and_waits_for_no_library():
    script = (
        "import sys; from typer.testing import CliRunner; from biomed.cli import app;"
        "print(CliRunner().invoke(app, ['--help']).stdout);"
        "print(sorted({'torch', 'pandas', 'matplotlib', 'transformers'} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert all(task in shown.stdout for task in ("ner", "terms", "models"))
    assert shown.stdout.splitlines()[-1] == "[]"


def test_version():
    assert (
        CliRunner().invoke(app, ["--version"]).stdout
        == f"biomed {__version__}\n"
    )


def test_models_are_listed_with_their_scores():
    shown = CliRunner().invoke(app, ["models"])
    assert shown.exit_code == 0, shown.output
    assert all(f"{name}:" in shown.stdout for name in shipped_models("biomed"))


def test_score_table_has_a_row_for_each_score():
    scores = {
        "ours": {"F1": 0.5, "Spearman": Interval(0.5, 0.4, 0.6)},
        "b": {},
    }
    assert Scores(table=scores).rows() == [
        ["", "ours", "b"],
        ["F1", "0.500", ""],
        ["Spearman", "0.500 [0.400, 0.600]", ""],
    ]
    assert Scores().rows() == []
