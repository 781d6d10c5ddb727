"""Add an example with its result to shipped models: the self-test of `domainbert serve`.

python -m recipes.examples MODEL...
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from domainbert.cli.console import one_line_errors
from domainbert.models.manifest import Example
from domainbert.models.storage import MANIFEST_FILE, manifest_text
from domainbert.service.served import announced, find_kind
from domainbert.service.worker import Worker

TEXT = "Lives alone. Stopped his furosemide two weeks ago. Admitted with heart failure."
EXAMPLES = {
    "readmission": ({"text": [TEXT]}, "probability"),
    "entities": ({"text": TEXT}, "score"),
    "answers": (
        {"question": "What did he stop?", "context": TEXT},
        "probability",
    ),
    "similar": ({"term": "heart attack"}, "similarity"),
}


@one_line_errors
def main(
    models: Annotated[list[Path], typer.Argument(help="Model folders.")],
) -> None:
    """Score the example of each model; write it to its folder and its card."""
    with tempfile.TemporaryDirectory() as work:
        for folder in models:
            task, name = find_kind(str(folder), announced())
            served = task.load(name, cache=Path(work) / "windows.sqlite")
            task = next(iter(served.tasks))
            record, column = EXAMPLES[task]
            worker = Worker(served.tasks[task], lambda _: None)
            row = worker.score([record], 60.0)[0]
            model = served.model
            model.manifest.example = Example(
                record=record, row={column: row[column]}
            )
            manifest = manifest_text(model.manifest)
            (folder / MANIFEST_FILE).write_text(manifest, "utf-8")
            card = model.card(model.config, model.adapter)
            (folder / "README.md").write_text(card, "utf-8")


if __name__ == "__main__":
    typer.run(main)
