"""Drift: how far today's notes and risks are from those of validation, in numbers only.

Validation has one source; training may have several (`clinical train --also`). The profile in a
model's manifest holds shares and quantiles: no word, no id.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from clinical.risk.manifest import QuantityProfile
from clinical.risk.model import ReadmissionModel
from clinical.stays.stays import clean, note_list
from domainbert.statistics import Floats
from domainbert.text.identifiers import count_placeholders
from domainbert.text.windows import own_tokenizer

QUANTITIES = {
    "notes": "Notes of a stay",
    "characters": "Characters of a stay",
    "tokens": "Tokens of a stay",
    "split_words": "Share of words that the vocabulary lacks (read in pieces)",
    "unknown_tokens": "Share of tokens that are unknown",
    "placeholders": "Placeholders of de-identification in a note, on average",
    "probability": "Predicted risk",
}

MOST_STAYS = 2000
"""A profile is made from at most this many stays, drawn at random."""

FEWEST_STAYS = 10
# The usual marks of the population stability index.
WATCH = 0.1
ACT = 0.25
PERCENTILES = np.arange(1, 100) / 100

_BINS = 10


def describe_notes(
    model: ReadmissionModel, stays: pd.Series
) -> dict[str, pd.Series]:
    """What the model's tokenizer finds in a sample of stays: the first six of `QUANTITIES`.

    A word is split when the encoder's vocabulary lacks it and it is read in pieces: names,
    misspellings, abbreviations, another language. Stays without a token have no shares (NaN).
    """
    tokenizer = own_tokenizer(model.tokenizer)
    unknown = model.tokenizer.unk_token_id
    rows = []
    for stay in stays.sample(min(len(stays), MOST_STAYS), random_state=0):
        notes = note_list(stay)
        n_placeholders = pd.Series(map(count_placeholders, notes), dtype=float)
        if model.settings.clean_notes:
            notes = list(map(clean, notes))
        encodings = tokenizer.encode_batch(notes, add_special_tokens=False)
        ids: list[int] = []
        pieces_per_word: list[int] = []
        for encoding in encodings:
            ids += encoding.ids
            pieces_per_word += Counter(encoding.word_ids).values()
        # The mean of an empty series is NaN.
        row = {
            "notes": len(notes),
            "characters": sum(map(len, notes)),
            "tokens": len(ids),
            "split_words": pd.Series(pieces_per_word, dtype=float)
            .gt(1)
            .mean(),
            "unknown_tokens": pd.Series(ids, dtype=float).eq(unknown).mean(),
            "placeholders": n_placeholders.mean(),
        }
        rows.append(row)
    return pd.DataFrame(rows, dtype=float).to_dict("series")


def profile(quantities: Mapping[str, ArrayLike]) -> dict[str, QuantityProfile]:
    """The distribution of each quantity, against which drift is measured.

    Quantities with fewer than `FEWEST_STAYS` values are left out.
    """
    profiles = {}
    for name, numbers in quantities.items():
        values = _finite(numbers)
        if len(values) < FEWEST_STAYS:
            continue
        edges = np.unique(np.quantile(values, np.arange(1, _BINS) / _BINS))
        profiles[name] = QuantityProfile(
            n=len(values),
            median=float(np.median(values)),
            edges=edges.tolist(),
            shares=_shares(values, edges).tolist(),
        )
        if name == "probability":
            percentiles = np.quantile(values, PERCENTILES)
            profiles[name].percentiles = percentiles.tolist()
    return profiles


def _finite(numbers: ArrayLike) -> Floats:
    values = np.asarray(numbers, dtype=np.float64)
    return values[np.isfinite(values)]


def _shares(values: Floats, edges: Floats) -> Floats:
    places = np.searchsorted(edges, values, side="left")
    return np.bincount(places, minlength=len(edges) + 1) / len(values)


def drift(
    profiles: Mapping[str, QuantityProfile],
    quantities: Mapping[str, ArrayLike],
) -> pd.DataFrame:
    """Compare then with now: a row for each quantity that both have.

    The columns are `quantity`, `then` and `now` (medians), `n_then`, `n_now`, `psi`, `chance` and
    `finding`: "stable", "watch" or "act", the latter two only where `psi` also exceeds `chance`.

    `psi` is the population stability index: the sum over bins of (now - then) × ln(now / then) of
    the shares of stays, each with half a stay added so that an empty bin gives a finite number.
    Below 0.1 counts as stable, above 0.25 as a change to act on (Siddiqi 2006, Credit Risk
    Scorecards). `chance` is its 95% quantile if nothing has changed: for independent stays, `psi`
    is then distributed as (1/n + 1/m) times chi-square with bins - 1 degrees of freedom (Yurdakul
    2018).
    """
    from scipy.stats import chi2

    rows = []
    for name, reference in profiles.items():
        values = _finite(quantities.get(name, ()))
        if not len(values):
            continue
        n_then = reference.n
        n_now = len(values)
        shares = _shares(values, np.asarray(reference.edges))
        now = _smoothed(shares, n_now)
        then = _smoothed(np.asarray(reference.shares), n_then)
        terms = (now - then) * np.log(now / then)
        psi = float(terms.sum())
        chance = 0.0
        degrees_of_freedom = len(then) - 1
        if degrees_of_freedom:
            quantile = chi2.ppf(0.95, degrees_of_freedom)
            chance = float(quantile * (1 / n_then + 1 / n_now))
        finding = "stable"
        if psi > max(chance, WATCH):
            finding = "watch"
        if psi > max(chance, ACT):
            finding = "act"
        medians = [reference.median, float(np.median(values))]
        rows.append((name, *medians, n_then, n_now, psi, chance, finding))
    columns = [
        "quantity",
        "then",
        "now",
        "n_then",
        "n_now",
        "psi",
        "chance",
        "finding",
    ]
    return pd.DataFrame(rows, columns=columns)


def _smoothed(shares: Floats, n: int) -> Floats:
    """Shares of n stays with half a stay added to each bin."""
    return (shares * n + 0.5) / (n + 0.5 * len(shares))


def compare_inputs(
    model: ReadmissionModel | None,
    rows: pd.DataFrame,
) -> tuple[pd.DataFrame, list[str]]:
    """`drift` since validation, and what it says, a sentence for each change.

    Args:
        model: with a profile in its manifest; the table is empty without one.
        rows: `probability` and, where known, `text`, one row per stay.
    """
    profiles = {}
    if model:
        profiles = model.manifest.data.profile
    now = {"probability": rows["probability"]}
    if profiles and model and "text" in rows.columns:
        now |= describe_notes(model, rows["text"])
    table = drift(profiles, now)
    changes = {"watch": "a change", "act": "a clear change"}
    findings = [
        f"{QUANTITIES[row.quantity]}: {changes[row.finding]} since validation (median "
        f"{number_text(row.then)} then, {number_text(row.now)} now; "
        f"stability index {row.psi:.2f}, by chance up "
        f"to {row.chance:.2f})."
        for row in table[table["finding"].isin(changes)].itertuples()
    ]
    return table, findings


def number_text(value: float) -> str:
    """A number as text: whole from 10 on, else with three decimals."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.3f}"
