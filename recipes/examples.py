"""Add an example with its result to shipped models: the self-test of `domainbert serve`.

python -m recipes.examples MODEL...
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from domainbert.cli.console import one_line_errors
from domainbert.errors import UserError
from domainbert.models.manifest import Example
from domainbert.models.storage import write_manifest
from domainbert.service.served import announced, find_task
from domainbert.service.worker import Worker

if TYPE_CHECKING:
    from pydantic import JsonValue

TEXT = "Lives alone. Stopped his furosemide two weeks ago. Admitted with heart failure."
EXAMPLES: dict[str, tuple[dict[str, JsonValue], str]] = {
    "readmission": ({"text": [TEXT]}, "probability"),
    "diagnoses": ({"text": [TEXT]}, "probability"),
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
            announcement, name = find_task(str(folder), announced())
            served = announcement.load(
                name, cache=Path(work) / "windows.sqlite"
            )
            task = next(iter(served.tasks))
            record, column = EXAMPLES[task]
            worker = Worker(served.tasks[task], lambda _: None)
            row = worker.score([record], 60.0)[0]
            model = served.model
            model.manifest.example = Example(
                record=record, row={column: row[column]}
            )
            write_manifest(folder, model.manifest)
            config = model.config
            if config is None:
                raise UserError(f"{folder} holds no model folder of ours")
            card = model.card(config, model.adapter)
            (folder / "README.md").write_text(card, "utf-8")


if __name__ == "__main__":
    typer.run(main)
