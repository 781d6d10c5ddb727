"""Run the notebooks and keep their outputs: python notebooks/run.py [NAME ...]"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def run(path: Path, folder: str | Path) -> nbformat.NotebookNode:
    """The notebook with fresh outputs; files that it writes go to `folder`."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=1800, resources=resources).execute()
    for cell in notebook.cells:
        # Logs and progress differ on every machine.
        kept = [
            o for o in cell.get("outputs", []) if o.get("name") != "stderr"
        ]
        if cell.cell_type == "code":
            cell.outputs = kept
            cell.metadata.pop("execution", None)
    return notebook


def main() -> None:
    """Run all notebooks, or those that are named."""
    for name in sys.argv[1:] or sorted(
        path.stem for path in HERE.glob("*.ipynb")
    ):
        path = HERE / f"{name}.ipynb"
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(run(path, folder), path)


if __name__ == "__main__":
    main()
