"""The evaluation as one self-contained HTML page and as JSON."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.evaluation.measures import MEASURES
from domainbert.errors import UserError
from domainbert.tables import atomic_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from clinical.evaluation.intervals import Evaluation, Interval

_LONGEST = 200  # characters of a table's cell; a longer one is likely to be a note
_IMAGES = {
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
}
_CAPTIONS = {
    "roc": "ROC curve. The dotted diagonal is what chance gives.",
    "precision_recall": "Precision and recall at every threshold, above the prevalence.",
    "calibration": "Observed against predicted risk in bins of equally many stays, with 95% "
    "intervals, and below a histogram of the risks. A calibrated model lies on the diagonal.",
    "windows": "Risk along one stay, window by window.",
}
_METRICS_VERSION = 2


def write_report(
    folder: str | Path,
    evaluations: Mapping[str, Evaluation],
    *,
    title: str,
    figures: Sequence[str | Path] = (),
    groups: pd.DataFrame | None = None,
    flow: pd.DataFrame | None = None,
    facts: Mapping[str, Any] | None = None,
    verdicts: Sequence[str] = (),
    caveats: Sequence[str] = (),
) -> Path:
    """Write `report.html`: one file with its figures and style inside, and no links.

    Args:
        folder: made if it does not exist.
        evaluations: name -> measures; the model first, then the baselines on the same stays.
        title: heading of the page.
        figures: PNG, SVG or JPEG files, in this order; names such as `roc.png` get a caption.
        groups: from `clinical.evaluation.subgroups.by_group`.
        flow: how the cohort was selected, one row a step.
        facts: about the model: encoder, data, c, seed.
        verdicts: what the measures say, shown at the top.
        caveats: what a reader should know, shown at the top.

    Returns:
        The page's path.

    Raises:
        UserError: a table contains what may be note text (a column `text`, lists, long strings),
            or a figure of another kind.
        OSError: a figure cannot be read.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    measured = groups is not None and groups["auroc"].notna().any()
    tables = {
        name: _table(frame, name=name)
        for name, frame in (("groups", groups if measured else None), ("flow", flow))
        if frame is not None and len(frame)
    }
    environment = Environment(
        loader=PackageLoader("clinical"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "range": _range, "cell": _cell}
    page = environment.get_template("report.html.j2").render(
        title=title,
        evaluation=next(iter(evaluations.values())),
        columns=evaluations,
        measures=MEASURES,
        figures=[_inline(Path(path)) for path in figures],
        facts=dict(facts or {}),
        tables=tables,
        too_small=groups is not None and len(groups) > 0 and not measured,
        verdicts=verdicts,
        caveats=caveats,
    )
    return _write(folder, "report.html", page)


def write_metrics(
    folder: str | Path,
    evaluations: Mapping[str, Evaluation],
    *,
    groups: pd.DataFrame | None = None,
    facts: Mapping[str, Any] | None = None,
    verdicts: Sequence[str] = (),
    caveats: Sequence[str] = (),
) -> Path:
    """Write `metrics.json`, always with the same keys, in full precision.

    The keys are `version, model, baselines, groups, facts, verdicts, caveats`; what is not
    available is null. For the arguments see `write_report`.
    """
    model, *others = evaluations.items()
    content = {
        "version": _METRICS_VERSION,
        "model": model[1].to_dict(),
        "baselines": {name: other.to_dict() for name, other in others},
        "groups": [] if groups is None else _records(groups),
        "facts": dict(facts or {}),
        "verdicts": list(verdicts),
        "caveats": list(caveats),
    }
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    return _write(folder, "metrics.json", text + "\n")


def _write(folder: str | Path, name: str, text: str) -> Path:
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): None if value != value else value for name, value in row.items()}
        for row in frame.astype(object).to_dict("records")
    ]


def _plain(value: Any) -> Any:
    """NumPy numbers as numbers, anything else that JSON does not know as a string."""
    return value.item() if hasattr(value, "item") else str(value)


def _inline(path: Path) -> dict[str, str]:
    kind = _IMAGES.get(path.suffix.lower())
    if kind is None:
        raise UserError(f"{path.name} is not a figure; expected {', '.join(_IMAGES)}")
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    caption = _CAPTIONS.get(path.stem, path.stem.replace("_", " "))
    return {"source": f"data:{kind};base64,{data}", "caption": caption}


def _table(frame: pd.DataFrame, *, name: str) -> dict[str, Any]:
    """Header and rows; a table that may contain notes is refused."""
    for column in frame.columns:
        if str(column).lower() == "text" or any(_noteish(cell) for cell in frame[column]):
            raise UserError(
                f"{name} has a column {str(column)!r} that may hold notes (lists, or more than "
                f"{_LONGEST} characters), which a report must not show; drop that column"
            )
    labels = [str(column).replace("_", " ") for column in frame.columns]
    return {"labels": labels, "rows": frame.astype(object).to_numpy().tolist()}


def _noteish(cell: object) -> bool:
    return len(str(cell)) > _LONGEST or (not isinstance(cell, str) and hasattr(cell, "__len__"))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


def _range(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f"{_number(interval.low)} to {_number(interval.high)}"


def _cell(value: object) -> str:
    """A value of a table: gaps are empty, fractions have three digits."""
    if value is None or value != value:  # NaN and NaT are not themselves
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return _number(value) if isinstance(value, float) else str(value)
