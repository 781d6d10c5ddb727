"""Pages of the site that come from the code: tutorials, commands, Python names, model cards."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import typer.main

ROOT = Path(__file__).parents[1]
TUTORIALS = (  # in the order a newcomer reads them
    "readmission",
    "entities",
    "question_answering",
    "term_embeddings",
    "sentence_embeddings",
    "text_vectors",
    "codes_from_notes",
    "pretraining",
)
PROGRAMS = {
    "clinical": "clinical.cli",
    "biomed": "biomed.cli",
    "domainbert": "domainbert.__main__",
}


def write_pages(docs: Path) -> None:
    """Write the generated pages below `docs`; git ignores them."""
    for name in TUTORIALS:
        text = (ROOT / "notebooks" / f"{name}.ipynb").read_text("utf-8")
        _write(
            docs / "tutorials" / f"{name}.ipynb",
            text.replace("](../docs/", "](../"),
        )
    for program, module in PROGRAMS.items():
        app = importlib.import_module(module).app
        page = "\n".join(_command(typer.main.get_command(app), program))
        _write(docs / "reference" / "commands" / f"{program}.md", page)
    for package in ("clinical", "biomed"):
        _write(
            docs / "reference" / "python" / f"{package}.md", _names(package)
        )
        for card in sorted((ROOT / package / "models").glob("*/README.md")):
            text = re.sub(
                r"\A---\n.*?\n---\n",
                "",
                card.read_text("utf-8"),
                flags=re.DOTALL,
            )
            _write(
                docs / "reference" / "models" / f"{card.parent.name}.md", text
            )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if (
        not path.exists() or path.read_text("utf-8") != text
    ):  # else Sphinx would read it again
        path.write_text(text, "utf-8")


def _command(command: Any, name: str, level: int = 1) -> list[str]:
    """A command, its options as a table, and its subcommands, as lines of Markdown."""
    title = f"`{name}`" if level > 1 else f"Commands: `{name}`"
    lines = [f"{'#' * level} {title}", "", _plain(command.help or ""), ""]
    if hasattr(command, "commands"):
        for word, below in command.commands.items():
            lines += _command(below, f"{name} {word}", level + 1)
        return lines
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([name, *map(_shown, arguments), "[OPTIONS]"])
    lines += [f"    {usage}", ""]
    if command.params:
        lines += ["| | | default |", "|---|---|---|"]
    for parameter in command.params:
        default = (
            ""
            if parameter.default in (None, False, ())
            else f"`{parameter.default}`"
        )
        if parameter.required:
            default = "required"
        lines.append(
            f"| `{_shown(parameter)}` | {_plain(parameter.help or '')} | {default} |"
        )
    return [*lines, ""]


def _shown(parameter: Any) -> str:
    """How an argument or option is written."""
    if parameter.param_type_name == "argument":
        return parameter.metavar or parameter.name.upper()
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def _plain(text: str) -> str:
    """One line of help that Markdown shows as it was written."""
    return re.sub(r"([|*_<>\[\]])", r"\\\1", " ".join(text.split()))


def _names(package: str) -> str:
    """Every public name of a package, documented from its docstring."""
    module = importlib.import_module(package)
    lines = [
        f"# Python: `{package}`",
        "",
        _plain(inspect.getdoc(module) or ""),
        "",
    ]
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value):
            lines += [
                f"## `{name}`",
                "",
                "```{eval-rst}",
                f".. autoclass:: {package}.{name}",
            ]
            # What a library's base class has is in that library's documentation.
            bases = "BaseModel, dict, BaseEstimator, ClassifierMixin"
            hidden = "get_metadata_routing, set_fit_request, set_score_request"
            lines += ["   :members:", f"   :inherited-members: {bases}"]
            lines += [f"   :exclude-members: {hidden}", "```", ""]
            for target in getattr(value, "tasks", {}).values():
                task = target.replace(":", ".")
                lines += ["```{eval-rst}", f".. autoclass:: {task}", "```", ""]
        elif callable(value):
            lines += [
                f"## `{name}`",
                "",
                "```{eval-rst}",
                f".. autofunction:: {package}.{name}",
            ]
            lines += ["```", ""]
    return "\n".join(lines)
