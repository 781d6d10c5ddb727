"""The README's Python runs as it stands, in order, in one session."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.encoder
def test_its_python_runs(capsys):
    blocks = re.findall(
        r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL
    )
    assert blocks
    session: dict[str, object] = {}
    for block in blocks:
        exec(block, session)
    out = capsys.readouterr().out
    shown = re.findall(r"# -> (.+)", "".join(blocks))
    assert shown
    assert [line for line in shown if f"{line}\n" not in out] == []
