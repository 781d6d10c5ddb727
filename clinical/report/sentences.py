"""The facts of the report as sentences, each from what is recorded or was measured.

An empty text is an unknown fact. The documents use the facts by their names. The wording is in
`sentences.toml`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from clinical.evaluation.comparison import Comparison
from clinical.evaluation.verdicts import group_verdicts
from clinical.risk.manifest import (
    CohortData,
    Evidence,
    RiskManifest,
)
from clinical.risk.model import ReadmissionModel
from clinical.stays.choice import outcome_noun
from domainbert import __version__
from domainbert.files import read_toml
from domainbert.models.manifest import Card
from domainbert.statistics.bootstrap import Interval

Sentences = dict[str, str]
_TEXTS = read_toml(__file__, "sentences.toml")
Record = Mapping[str, Any]
"""A part of a cohort's summary, as it is in JSON."""

EVIDENCE = "comprehensiveness 5%"
SIDES = {"train": "Training", "val": "validation", "test": "test"}
INELIGIBLE = {
    "transfer",
    "after_death",
    "newborn",
    "observation",
    "died_in_hospital",
    "same_day_death",
    "age",
    "left_early",
    "no_text",
}
"""Steps of the flow that say whom the model is not for: no faults, and no unknown outcomes."""


def name_sentences(model: ReadmissionModel | None, name: str) -> Sentences:
    """What the model is called, and its limits."""
    card = Card()
    title = f"Scores of {name}"
    if model:
        card = model.manifest.card
        title = f"{model.outcome.capitalize()}, from the notes of a stay"
    return {
        "model": name,
        "version": __version__,
        "title": card.title or title,
        "limits": _plain(card.limits),
        "training_data": _plain(card.data),
    }


def model_sentences(model: ReadmissionModel) -> Sentences:
    """What the model is: its network, how windows make a score, its calibration, its alerts."""
    settings = model.settings
    encoder = ""
    if model.config:
        encoder = model.config.encoder
    elif name := model.network.config.name_or_path:
        encoder = name
    adapter = ""
    if model.adapter:
        adapter = f", with a LoRA adapter of rank {model.adapter.rank}"
    calibration = "none"
    if settings.columns:
        calibration = "columns"
    elif settings.calibration:
        calibration = "platt"
    threshold = settings.alert_threshold
    alerting = "none" if threshold is None else "threshold"
    columns = ", ".join(effect.name for effect in settings.columns)
    facts = {
        "settings": settings,
        "name": encoder or "without a name",
        "adapter": adapter,
        "tokens": model.window_tokens(),
    }
    return _filled("model", facts) | {
        "fingerprint": model.fingerprint()[:12],
        "encoder": encoder,
        "calibration": _TEXTS["calibration"][calibration].format(
            columns=columns
        ),
        "alerting": _TEXTS["alerting"][alerting].format(threshold=threshold),
    }


def training_sentences(manifest: RiskManifest) -> Sentences:
    """How the model was trained, updated and tested, from its manifest."""
    updating = "recalibrated" if manifest.calibration.recalibrated else "none"
    sentences = {
        "profile_remark": manifest.data.profile_note,
        "evidence": "",
        "own_validity": "",
        "updating": _TEXTS["updating"][updating].format(
            recalibrated=manifest.calibration.recalibrated
        ),
        "training_stays": _training_stays(manifest.data),
        "own_fairness": " ".join(manifest.scores.disparities),
    }
    if manifest.evidence:
        sentences["evidence"] = _evidence(manifest.evidence)
    scores = manifest.scores.model
    if scores and scores.measures["auroc"].value is not None:
        facts = {"scores": scores, "auroc": scores.measures["auroc"]}
        sentences["own_validity"] = _TEXTS["tested"]["own_validity"].format(
            **facts
        )
    for stage in manifest.training.stages:
        facts = {
            "stage": stage,
            "plural": "" if stage.epochs == 1 else "s",
            "objective": manifest.training.objective,
        }
        sentences |= _filled("stage", facts)
    return sentences


def _filled(table: str, facts: Record) -> Sentences:
    """The sentences of a table of `sentences.toml`, with facts filled in."""
    return {name: text.format(**facts) for name, text in _TEXTS[table].items()}


def _evidence(evidence: Evidence) -> str:
    """How faithful the model's explanations were measured to be."""
    faithful = {
        str(measure["method"]): _spelled(measure)
        for measure in evidence.measures
        if measure["measure"] == EVIDENCE
    }
    if not {"occlusion", "random"} <= faithful.keys():
        return ""
    text: str = _TEXTS["tested"]["evidence"]
    return text.format(evidence=evidence, **faithful)


def _training_stays(data: CohortData) -> str:
    """How many stays each side has, and how many of them have the outcome."""
    parts = [
        f"{label}: {data.stays[side]:,} stays, {100 * data.prevalence[side]:.1f}% with the outcome"
        for side, label in SIDES.items()
        if side in data.stays
    ]
    if not parts:
        return ""
    return f"{'; '.join(parts)}."


def cohort_sentences(
    cohort: Record, model: ReadmissionModel | None
) -> Sentences:
    """The definition, what it excludes, and what the stays are, from the cohort's summary."""
    definition = cohort["definition"]
    steps = [step for step in cohort["steps"][1:] if step["removed"]]
    ineligible = [step for step in steps if step["step"] in INELIGIBLE]
    imputed = "nothing is imputed"
    if model and model.settings.columns:
        imputed = "a missing value of a column beside the notes is its median"
    facts = {
        "deaths": "",
        **cohort,
        "notes": _TEXTS["notes"][cohort["notes"]].format(**cohort),
        "n_faults": sum(issue["count"] for issue in cohort["issues"]),
        "imputed": imputed,
        "admissions": cohort["steps"][0]["left"],
    }
    return _filled("cohort", facts) | {
        "outcome": outcome_noun(definition["event"]),
        "exclusions": _removed(steps) or "none",
        "not_for": _removed(ineligible) or "none",
        "caveats": " ".join(cohort["caveats"]),
    }


def _removed(steps: Sequence[Record]) -> str:
    return "; ".join(
        f"{step['reason']} ({step['removed']:,})" for step in steps
    )


def evaluation_sentences(comparison: Comparison, event: str) -> Sentences:
    """What was evaluated, how, and with what result."""
    evaluation = comparison.model
    facts = {
        "own": evaluation,
        "event": event,
        "sample": f"{evaluation.n_stays:,} stays of {evaluation.n_patients:,} patients",
    }
    intervals = "bootstrap" if evaluation.bootstrap else "none"
    facts["intervals"] = _TEXTS["intervals"][intervals].format(own=evaluation)
    texts = _TEXTS["comparison"]
    heterogeneity = ""
    if len(comparison.periods) > 1:
        heterogeneity = texts["heterogeneity"]
    differences = ""
    if len(comparison.inputs):
        differences = " ".join(comparison.findings) or texts["differences"]
    fairness = group_verdicts(comparison.groups)
    return _filled("evaluation", facts) | {
        "fairness": " ".join(verdict.text for verdict in fairness),
        "differences": differences,
        "heterogeneity": heterogeneity,
        "characteristics": _characteristics(comparison),
    }


def _characteristics(comparison: Comparison) -> str:
    """How many stays each group has, by column."""
    parts = []
    for column, groups in comparison.groups.groupby("column", sort=False):
        sizes = [f"{row.group} {row.n:,}" for row in groups.itertuples()]
        parts.append(f"{column}: {', '.join(sizes)}")
    if not parts:
        return ""
    return f"Stays by {'; '.join(parts)}."


def _plain(text: str | None) -> str:
    return (text or "").replace("`", "")


def _spelled(interval: Record) -> str:
    return str(Interval(interval["value"], interval["low"], interval["high"]))
