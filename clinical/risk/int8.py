"""Readmission models in int8: calibrated on the caller's stays, checked on others of them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clinical.risk.aggregation import aggregate_stays
from domainbert.errors import UserError
from domainbert.files import write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from clinical.risk.model import RiskModel

STAYS, LEAST_STAYS = 200, 40
WINDOWS = 4  # of each stay, at most
AUROC_LIMIT, PROBABILITY_LIMIT = 0.005, 0.01
_FORMAT = 1


@dataclass(frozen=True)
class Int8Change:
    """How int8 changed the probabilities of stays that it was not calibrated on.

    `mean` and `worst` are of the absolute difference of probability over that many `stays`. The
    expected AUROC, in float32 and in int8, is what the ranking would reach if the float32
    probabilities were true.
    """

    stays: int
    mean: float
    worst: float
    expected_auroc: float
    expected_auroc_int8: float

    def __str__(self) -> str:
        """One line for the person at the terminal."""
        return (
            f"int8 changed the probability of {self.stays} stays by {self.mean:.4f} on average and "
            f"{self.worst:.4f} at most; expected AUROC {self.expected_auroc:.4f} in float32, "
            f"{self.expected_auroc_int8:.4f} in int8"
        )


def load_int8(
    model: RiskModel, folder: Path, stays: Callable[[], Iterable[str | Sequence[str]]]
) -> tuple[RiskModel, Int8Change]:
    """An int8 copy of a model, from the ranges in a folder or calibrated now.

    Args:
        model: on a CPU.
        folder: of the ranges of its models; see `int8_folder`.
        stays: gives stays of the caller; called if the folder has no ranges for the model.

    Raises:
        UserError: too few stays, int8 changes the probabilities too much, or no CPU.
    """
    from domainbert.encoders.int8 import to_int8

    if model.runner.device.type != "cpu":
        raise UserError("int8 is for CPUs; leave --precision out on a GPU, or add --device cpu")
    path = folder / f"{model.fingerprint()[:32]}.json"
    kept = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    if kept.get("format") != _FORMAT:
        kept = {"format": _FORMAT, **_calibrate(model, stays())}
        folder.mkdir(parents=True, exist_ok=True)
        write_json(kept, path)
    network = to_int8(model.network, kept["ranges"])
    return type(model).of(model, network=network), Int8Change(**kept["change"])


def int8_folder(name: str | Path) -> Path:
    """The folder beside a model's, or, where that cannot be written, in the user's cache."""
    folder = Path(name)
    beside = folder.with_name(f"{folder.name}.int8")
    if folder.is_dir() and (beside.is_dir() or os.access(folder.parent, os.W_OK)):
        return beside
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "domainbert" / "int8"


def _calibrate(model: RiskModel, stays: Iterable[str | Sequence[str]]) -> dict[str, Any]:
    """The ranges of every other stay, and the change of the probabilities of the rest.

    Raises:
        UserError: fewer than 40 stays with text, or a change above the limits.
    """
    from domainbert.encoders.int8 import measure_ranges, to_int8

    windows = [stay[:WINDOWS] for stay in model.token_ids(stays) if stay]
    if len(windows) < LEAST_STAYS:
        raise UserError(
            f"int8 is calibrated on at least {LEAST_STAYS} stays with text; got {len(windows)}; "
            "leave --precision out"
        )
    sample = [window for stay in windows[::2] for window in stay]
    ranges = measure_ranges(model.network, sample, runner=model.runner)
    change = _change(model, to_int8(model.network, ranges), windows[1::2])
    loss = change.expected_auroc - change.expected_auroc_int8
    if not loss <= AUROC_LIMIT or not change.mean <= PROBABILITY_LIMIT:
        raise UserError(
            f"{change}; the limits are {AUROC_LIMIT} of AUROC and {PROBABILITY_LIMIT} of mean "
            "probability: leave --precision out"
        )
    return {"ranges": ranges, "change": asdict(change)}


def _change(model: RiskModel, network: Any, windows: Sequence[Sequence[np.ndarray]]) -> Int8Change:
    scores = [
        aggregate_stays(*model.window_probabilities(windows, network=each), c=model.c)
        for each in (None, network)
    ]
    plain, int8 = map(model.calibrated, scores)
    difference = np.abs(plain - int8)
    mean, worst = float(difference.mean()), float(difference.max())
    aurocs = (_expected_auroc(each, plain) for each in scores)
    return Int8Change(len(windows), mean, worst, *aurocs)


def _expected_auroc(scores: np.ndarray, chances: np.ndarray) -> float:
    """AUROC over all pairs of stays, weighted by p_i (1 - p_j); scores, chances (stays,)."""
    weights = chances[:, None] * (1 - chances[None, :])
    np.fill_diagonal(weights, 0)
    higher = np.sign(scores[:, None] - scores[None, :]) / 2 + 0.5
    return float((weights * higher).sum() / weights.sum())
