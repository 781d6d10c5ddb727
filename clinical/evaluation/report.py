"""An evaluation as one HTML page that opens anywhere, and as a JSON file for machines."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.errors import UserError
from domainbert.tables import atomic_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from clinical.evaluation.measures import Evaluation, Interval

EXAMPLE_COLUMNS = (
    *("patient_id", "stay_id", "readmitted", "probability", "calibrated", "p_max", "p_mean"),
    *("n_windows", "n_tokens", "status"),
)
"""What the page may show of single stays: ids and numbers, and never a note."""

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
    "intervals; below, how many stays got which risk. On the diagonal, risks mean what they say.",
    "windows": "Risk along one stay, window by window.",
}
_METRICS_VERSION = 1


@dataclass(frozen=True)
class _Measure:
    """A line of the table: field of `Evaluation`, its name, and how to read it."""

    field: str
    name: str
    reading: str


_MEASURES = (
    _Measure(
        "auroc",
        "AUROC",
        "How often a readmitted stay gets a higher risk than one that was not; 0.5 is chance.",
    ),
    _Measure(
        "auprc",
        "AUPRC",
        "Precision averaged over recall. Compare it with the prevalence, which is what risks that "
        "know nothing reach.",
    ),
    _Measure(
        "prevalence",
        "Prevalence",
        "Share of these stays that were readmitted, left as it was found.",
    ),
    _Measure(
        "rp80",
        "RP80",
        "Share of readmissions found when at least 80% of alerts are right, at the best threshold "
        "for these very stays, as papers report it. It flatters.",
    ),
    _Measure(
        "recall_at_threshold",
        "Recall at validation’s threshold",
        "Share of readmissions found at the threshold chosen beforehand on validation: what to "
        "expect in use.",
    ),
    _Measure(
        "precision_at_threshold",
        "Precision at validation’s threshold",
        "Share of those alerts that are right; it aimed at 80% on validation.",
    ),
    _Measure(
        "brier",
        "Brier score",
        "Mean squared distance of risk and outcome. Giving everyone the prevalence p scores "
        "p × (1 − p).",
    ),
    _Measure(
        "calibration_slope",
        "Calibration slope",
        "1 is right; below 1 the risks are too extreme, above 1 too timid.",
    ),
    _Measure(
        "calibration_intercept",
        "Calibration intercept",
        "With slope 1: 0 is right, below 0 the risks are too high, above 0 too low (log-odds, "
        "fitted together with the slope).",
    ),
    _Measure(
        "ece",
        "ECE",
        "Mean distance of predicted and observed risk over ten bins of equally many stays. Chance "
        "alone keeps it above 0, more so with few stays.",
    ),
)


def write_report(
    folder: str | Path,
    *,
    title: str,
    evaluation: Evaluation,
    baselines: Mapping[str, Evaluation] | None = None,
    figures: Sequence[str | Path] = (),
    groups: pd.DataFrame | None = None,
    flow: pd.DataFrame | None = None,
    model_facts: Mapping[str, Any] | None = None,
    examples: pd.DataFrame | None = None,
) -> Path:
    """Write `report.html`: one file with its figures and style inside, and no link to anywhere.

    Args:
        folder: where to; made if it is not there.
        title: heading of the page.
        evaluation: the model's numbers.
        baselines: name -> numbers of others on the same stays.
        figures: PNG, SVG or JPEG files, shown in this order; names such as `roc.png` get a caption.
        groups: as from `clinical.evaluation.subgroups.by_group`.
        flow: how the cohort came about, one row a step.
        model_facts: name -> what to know of the model: encoder, data, c, seed.
        examples: some stays; columns of `EXAMPLE_COLUMNS` alone.

    Returns:
        The page's path.

    Raises:
        ValueError: a table holds what may be note text (a column `text`, lists, long strings), or
            `examples` another column than allowed; or a figure is of another kind.
        OSError: a figure cannot be read.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    if examples is not None:
        _check_examples(examples)
    tables = {
        name: _table(frame, name=name)
        for name, frame in (("groups", groups), ("flow", flow), ("examples", examples))
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
        evaluation=evaluation,
        columns={"model": evaluation, **(baselines or {})},
        measures=_MEASURES,
        figures=[_inline(Path(path)) for path in figures],
        facts=dict(model_facts or {}),
        tables=tables,
    )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(folder / "report.html") as temporary:
        temporary.write_text(page, encoding="utf-8")
    return folder / "report.html"


def write_metrics(
    folder: str | Path,
    *,
    evaluation: Evaluation,
    baselines: Mapping[str, Evaluation] | None = None,
    groups: pd.DataFrame | None = None,
    model_facts: Mapping[str, Any] | None = None,
) -> Path:
    """Write `metrics.json`: `version`, `model`, `baselines`, `groups` and `facts`, always all five.

    Numbers have full precision; what cannot be had is null. The arguments are those of
    `write_report`; values of `model_facts` that JSON does not know are written as strings.
    """
    content = {
        "version": _METRICS_VERSION,
        "model": evaluation.to_dict(),
        "baselines": {name: other.to_dict() for name, other in (baselines or {}).items()},
        "groups": [] if groups is None else _records(groups),
        "facts": dict(model_facts or {}),
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(folder / "metrics.json") as temporary:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
        temporary.write_text(text + "\n", encoding="utf-8")
    return folder / "metrics.json"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): None if value != value else value for name, value in row.items()}
        for row in frame.astype(object).to_dict("records")
    ]


def _plain(value: Any) -> Any:
    """What JSON does not know: a NumPy number as a number, anything else as its string."""
    return value.item() if hasattr(value, "item") else str(value)


def _inline(path: Path) -> dict[str, str]:
    kind = _IMAGES.get(path.suffix.lower())
    if kind is None:
        raise UserError(f"{path.name} is no figure for a page; legal are {', '.join(_IMAGES)}")
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    caption = _CAPTIONS.get(path.stem, path.stem.replace("_", " "))
    return {"source": f"data:{kind};base64,{data}", "caption": caption}


def _check_examples(examples: pd.DataFrame) -> None:
    extra = [str(name) for name in examples.columns if name not in EXAMPLE_COLUMNS]
    if extra:
        raise UserError(
            f"examples has the columns {', '.join(extra)}, which the page does not show; pass "
            f"examples[[...]] with columns out of {', '.join(EXAMPLE_COLUMNS)}"
        )


def _table(frame: pd.DataFrame, *, name: str) -> dict[str, Any]:
    """Header and rows, after a look for what might be a note."""
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
