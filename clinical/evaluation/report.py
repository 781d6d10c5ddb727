"""The evaluation as one self-contained HTML page and as JSON."""

from __future__ import annotations

import base64
import json
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clinical.evaluation.measures import MEASURES
from domainbert.errors import UserError
from domainbert.tables import atomic_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from clinical.evaluation.comparison import Comparison
    from clinical.evaluation.intervals import Interval

_LONGEST = 200  # characters of a table's cell; a longer one is likely to be a note
_IMAGES = (".png", ".svg", ".jpg", ".jpeg")
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
    comparison: Comparison,
    *,
    title: str,
    figures: Sequence[str | Path] = (),
    flow: pd.DataFrame | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Path:
    """Write `report.html`: one file with its figures and style inside, and no links.

    Args:
        folder: made if it does not exist.
        comparison: what was measured; its verdicts and caveats are at the top.
        title: heading of the page.
        figures: PNG, SVG or JPEG files, in this order; names such as `roc.png` get a caption.
        flow: how the cohort was selected, one row a step.
        facts: about the model: encoder, data, c, seed.

    Raises:
        UserError: a table contains what may be note text (a column `text`, lists, long strings),
            or a figure of another kind.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    groups, tables = comparison.groups, {}
    if measured := bool(groups["auroc"].notna().any()):
        tables["groups"] = _table(groups, name="groups")
    if flow is not None and len(flow):
        tables["flow"] = _table(flow, name="flow")
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
        evaluation=next(iter(comparison.evaluations.values())),
        columns=comparison.evaluations,
        measures=MEASURES,
        figures=[_inline(Path(path)) for path in figures],
        facts=dict(facts or {}),
        tables=tables,
        too_small=len(groups) > 0 and not measured,
        verdicts=comparison.verdicts,
        caveats=comparison.caveats,
    )
    return _write(folder, "report.html", page)


def write_metrics(
    folder: str | Path, comparison: Comparison, *, facts: Mapping[str, Any] | None = None
) -> Path:
    """Write `metrics.json`, always with the same keys, in full precision; gaps are null."""
    model, *others = comparison.evaluations.items()
    content = {
        "version": _METRICS_VERSION,
        "model": model[1].to_dict(),
        "baselines": {name: other.to_dict() for name, other in others},
        "groups": _without_gaps(comparison.groups).to_dict("records"),
        "facts": dict(facts or {}),
        "verdicts": comparison.verdicts,
        "caveats": comparison.caveats,
    }
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    return _write(folder, "metrics.json", text + "\n")


def _write(folder: str | Path, name: str, text: str) -> Path:
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _plain(value: Any) -> Any:
    """NumPy numbers as numbers, anything else that JSON does not know as a string."""
    return value.item() if hasattr(value, "item") else str(value)


def _inline(path: Path) -> dict[str, str]:
    if path.suffix.lower() not in _IMAGES:
        raise UserError(f"{path.name} is not a figure; expected {', '.join(_IMAGES)}")
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    caption = _CAPTIONS.get(path.stem, path.stem.replace("_", " "))
    return {"source": f"data:{guess_type(path.name)[0]};base64,{data}", "caption": caption}


def _table(frame: pd.DataFrame, *, name: str) -> dict[str, Any]:
    """Header and rows; a table that may contain notes is refused."""
    for column in frame.columns:
        if str(column).lower() == "text" or any(_noteish(cell) for cell in frame[column]):
            raise UserError(
                f"{name} has a column {str(column)!r} that may hold notes (lists, or more than "
                f"{_LONGEST} characters), which a report must not show; drop that column"
            )
    labels = [str(column).replace("_", " ") for column in frame.columns]
    return {"labels": labels, "rows": _without_gaps(frame).to_numpy().tolist()}


def _without_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table as Python objects, None where a value is missing."""
    objects = frame.astype(object)
    return objects.where(objects.notna(), None)


def _noteish(cell: object) -> bool:
    return len(str(cell)) > _LONGEST or (not isinstance(cell, str) and hasattr(cell, "__len__"))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


def _range(interval: Interval) -> str:
    ends = (interval.low, interval.high)
    return "" if None in ends else " to ".join(map(_number, ends))


def _cell(value: object) -> str:
    """A value of a table: gaps are empty, fractions have three digits."""
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return _number(value) if isinstance(value, float) else str(value)
