"""The facts of the report as sentences, each from what is recorded or was measured.

An empty text is an unknown fact. The documents use the facts by their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clinical.evaluation.verdicts import group_verdicts
from clinical.stays.choice import outcome_noun
from domainbert import __version__
from domainbert.models.manifest import Card
from domainbert.statistics.bootstrap import Interval

if TYPE_CHECKING:
    from clinical.evaluation.comparison import Comparison
    from clinical.risk.manifest import (
        CohortData,
        Evidence,
        RiskManifest,
        RiskMeasures,
    )
    from clinical.risk.model import ReadmissionModel

Sentences = dict[str, str]
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
    encoder = model.network.config.name_or_path or ""
    if model.config:
        encoder = model.config.encoder
    adapter = ""
    if model.adapter:
        adapter = f", with a LoRA adapter of rank {model.adapter.rank}"
    return {
        "fingerprint": model.fingerprint()[:12],
        "encoder": encoder,
        "network": (
            f"BERT encoder {encoder or 'without a name'}{adapter}, and a classification head on "
            "its CLS token for each window of the notes (ClinicalBERT, Huang et al. 2019)."
        ),
        "windows": (
            f"Each note is cut into windows of at most {model.window_tokens()} tokens, none is "
            "dropped; a stay's score is (P_max + P_mean n/c) / (1 + n/c) over its n windows, with "
            f"c = {settings.c:g}."
        ),
        "calibration": _calibration(model),
        "alerting": _alerting(settings.alert_threshold),
    }


def _calibration(model: ReadmissionModel) -> str:
    """How the score became a probability."""
    columns = ", ".join(effect.name for effect in model.settings.columns)
    if columns:
        return (
            "The probability is from a logistic regression on the log-odds of the score and "
            f"{columns}, fitted on validation."
        )
    if model.settings.calibration:
        return "The probability is calibrated by Platt's method, fitted on validation."
    return "The probability is not calibrated: it is the value of the rule."


def _alerting(threshold: float | None) -> str:
    """From which probability the model raises an alert."""
    if threshold is None:
        return (
            "No alert threshold is set: no probability reached 80% precision on "
            "validation."
        )
    return (
        f"An alert is raised at a probability of {threshold:.3f} or more, where 80% of alerts were "
        "right on validation."
    )


def training_sentences(manifest: RiskManifest) -> Sentences:
    """How the model was trained, updated and tested, from its manifest."""
    sentences = {
        "profile_remark": manifest.data.profile_note,
        "evidence": "",
        "own_validity": "",
        "updating": "The model was not updated in this evaluation.",
        "training_stays": _training_stays(manifest.data),
        "own_fairness": " ".join(manifest.scores.disparities),
    }
    if manifest.evidence:
        sentences["evidence"] = _evidence(manifest.evidence)
    if manifest.scores.model:
        sentences["own_validity"] = _own_validity(manifest.scores.model)
    recalibrated = manifest.calibration.recalibrated
    if recalibrated:
        sentences["updating"] = (
            "Before this evaluation, c, the calibrator and the alert threshold were fitted on "
            f"{recalibrated.stays:,} other stays ({recalibrated.readmitted:,} with the "
            "outcome); the weights are those of training."
        )
    for stage in manifest.training.stages:
        plural = "" if stage.epochs == 1 else "s"
        sentences["training"] = (
            f"Trained for {stage.epochs:g} epoch{plural} with the objective "
            f"{manifest.training.objective}, learning rate {stage.learning_rate:g}, seed "
            f"{stage.seed}; the weights with the best validation AUROC were kept, and c, the "
            "calibrator and the alert threshold were chosen on validation."
        )
        sentences["imbalance"] = (
            "Stays with the outcome were weighted up in training by the ratio of the others to "
            "them; no side was resampled, and the probability was calibrated on validation "
            "afterwards."
        )
    return sentences


def _evidence(evidence: Evidence) -> str:
    """How faithful the model's explanations were measured to be."""
    faithful = {
        measure["method"]: _spelled(measure)
        for measure in evidence.measures
        if measure["measure"] == EVIDENCE
    }
    if not {"occlusion", "random"} <= faithful.keys():
        return ""
    return (
        f"Explanations were tested on {evidence.stays} stays of {evidence.patients} patients "
        f"({evidence.cohort}): without the 5% of a stay's tokens that are named first, its risk "
        f"falls by {faithful['occlusion']} on average; without random sentences of the same "
        f"length, by {faithful['random']}."
    )


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


def _own_validity(scores: RiskMeasures) -> str:
    auroc = scores.measures["auroc"]
    if auroc.value is None:
        return ""
    return (
        f"On the test side of its own cohort ({scores.n_stays:,} stays of "
        f"{scores.n_patients:,} other patients): AUROC {auroc}."
    )


def cohort_sentences(
    cohort: Record, model: ReadmissionModel | None
) -> Sentences:
    """The definition, what it excludes, and what the stays are, from the cohort's summary."""
    definition = cohort["definition"]
    steps = [step for step in cohort["steps"][1:] if step["removed"]]
    ineligible = [step for step in steps if step["step"] in INELIGIBLE]
    notes = "discharge summary and its addenda"
    if cohort["notes"] == "early":
        notes = f"notes of the first {cohort['hours']:g} hours after admission"
    imputed = "nothing is imputed"
    if model and model.settings.columns:
        imputed = "a missing value of a column beside the notes is its median"
    n_faults = sum(issue["count"] for issue in cohort["issues"])
    kept = cohort["kept"]
    return {
        "event": definition["event"],
        "outcome": outcome_noun(definition["event"]),
        "definition": definition_label(definition),
        "exclusions": _removed(steps) or "none",
        "not_for": _removed(ineligible) or "none",
        "notes": f"The {notes}, as text; no note written after the outcome.",
        "preparation": (
            f"Times, ids and duplicates are checked row by row; {n_faults:,} faults are listed "
            "with the cohort. De-identification marks are blanked. It is the same for all groups "
            "of patients."
        ),
        "missing": (
            f"A stay without a note is excluded and counted; {imputed}. A missing attribute of a "
            "patient forms the group 'not recorded'."
        ),
        "flow": (
            f"{cohort['steps'][0]['left']:,} admissions, {kept['stays']:,} stays of "
            f"{kept['patients']:,} patients kept, {kept['readmitted']:,} {definition['event']}. "
            f"{cohort.get('deaths', '')}"
        ),
        "caveats": " ".join(cohort["caveats"]),
    }


def definition_label(definition: Record) -> str:
    """Name, version and changed rules of a definition, with the start of its SHA-256."""
    label = (
        definition.get("label")
        or f"{definition['name']} {definition['version']}"
    )
    digest = definition.get("sha256")
    if digest:
        label += f" (SHA-256 {digest[:12]}…)"
    return label


def _removed(steps: Sequence[Record]) -> str:
    return "; ".join(
        f"{step['reason']} ({step['removed']:,})" for step in steps
    )


def evaluation_sentences(comparison: Comparison, event: str) -> Sentences:
    """What was evaluated, how, and with what result."""
    measured = comparison.model
    sample = f"{measured.n_stays:,} stays of {measured.n_patients:,} patients"
    intervals = "no intervals were computed"
    if measured.bootstrap:
        intervals = (
            f"intervals are from {measured.bootstrap:,} resamples of patients with all their "
            "stays"
        )
    heterogeneity = ""
    if comparison.periods is not None and len(comparison.periods) > 1:
        heterogeneity = (
            "By period of discharge, see the section on time; hospitals or wards were not "
            "compared."
        )
    return {
        "evaluated": f"{sample}, of which {measured.n_readmitted:,} {event}.",
        "process": f"The model was applied as it is, without a change; {intervals}.",
        "partition": (
            "Patients, not stays, are assigned to training, validation and test; this evaluation "
            "uses one side only."
        ),
        "validity": (
            f"AUROC {measured.auroc}, AUPRC {measured.auprc}, observed / expected "
            f"{measured.observed_expected}, calibration slope {measured.calibration_slope}, on "
            f"{sample}."
        ),
        "fairness": " ".join(
            verdict.text for verdict in group_verdicts(comparison.groups)
        ),
        "differences": _differences(comparison),
        "heterogeneity": heterogeneity,
        "characteristics": _characteristics(comparison),
    }


def _differences(comparison: Comparison) -> str:
    if comparison.inputs.empty:
        return ""
    return " ".join(comparison.findings) or (
        "No difference of the notes and risks from the model's validation side beyond chance was "
        "found."
    )


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
