"""Run the notebooks and keep their outputs: python notebooks/run.py [NAME ...]"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbclient import NotebookClient

if TYPE_CHECKING:
    from jupyter_client import AsyncKernelManager

HERE = Path(__file__).parent


def run(
    path: Path,
    folder: str | Path,
    kernel: AsyncKernelManager | None = None,
) -> nbformat.NotebookNode:
    """The notebook with fresh outputs; files that it writes go to `folder`.

    Several notebooks may run one after another in a kernel: each begins without the names of the
    one before it, but need not wait for the libraries again.
    """
    notebook = nbformat.read(path, as_version=4)
    cells = notebook.cells
    start = nbformat.v4.new_code_cell(f"%reset -f\n%cd -q {folder}")
    notebook.cells = [start, *cells]
    client = NotebookClient(notebook, km=kernel, timeout=1800)
    client.execute()
    notebook.cells = cells
    for cell in cells:
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
