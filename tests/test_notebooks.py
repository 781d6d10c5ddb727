"""Every notebook runs from top to bottom, and its committed outputs are those of this version."""

import asyncio
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from jupyter_client import AsyncKernelManager

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
sys.path.append(str(FOLDER))
from run import run  # noqa: E402


def shape(notebook):
    """What each cell shows: the kinds of its outputs, and whether it printed anything."""
    return [
        sorted(
            {
                kind
                for output in cell.get("outputs", [])
                for kind in kinds(output)
            }
        )
        for cell in notebook.cells
    ]


def kinds(output):
    return (
        [output["name"]]
        if output.output_type == "stream"
        else list(output.data)
    )


@pytest.fixture(scope="module")
def kernel():
    """A kernel for all notebooks: starting one takes longer than most of them."""
    manager = AsyncKernelManager(kernel_name="python3")
    yield manager
    if manager.has_kernel:
        asyncio.run(manager.shutdown_kernel(now=True))


@pytest.mark.encoder
@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_its_outputs_are_current(path, tmp_path, kernel):
    assert shape(run(path, tmp_path, kernel)) == shape(
        nbformat.read(path, as_version=4)
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_outputs_are_kept_and_it_is_small(path):
    shown = shape(nbformat.read(path, as_version=4))
    assert any({"image/png", "text/html"} & set(kinds) for kinds in shown)
    assert path.stat().st_size < 1_000_000
    assert tempfile.gettempdir() + "/" not in path.read_text("utf-8")
