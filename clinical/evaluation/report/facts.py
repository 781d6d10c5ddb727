"""What the report knows by itself: facts from the manifest, the cohort and the evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clinical.evaluation.subgroups import disparities
from domainbert import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from clinical.evaluation.comparison import Comparison
    from clinical.risk.model import ReadmissionModel

Facts = dict[str, str | None]
EVIDENCE = "comprehensiveness 5%"


def gather(
    model: ReadmissionModel,
    comparison: Comparison,
    *,
    name: str,
    summary: Mapping[str, Any] | None = None,
) -> Facts:
    """Facts as sentences by name, None where they are unknown.

    Args:
        model: the one that was evaluated.
        comparison: its evaluation.
        name: of the model, as the user gave it.
        summary: of the cohort, from `clinical.cohort.Cohort`; None for other tables.
    """
    facts = {
        **_model_facts(model, name),
        **_training_facts(model.manifest),
        **_cohort_facts(summary),
        **_evaluation_facts(comparison),
    }
    days = facts["horizon"]
    facts["heading"] = (
        "Evaluation of a prediction model: unplanned readmission of hospital patients within "
        f"{days} days of discharge, from the notes of their stay"
    )
    return facts


def _model_facts(model: ReadmissionModel, name: str) -> Facts:
    settings, card = model.settings, model.manifest.get("card", {})
    encoder = model.config.encoder if model.config else model.network.config.name_or_path
    lora = model.config.lora if model.config else None
    alerting = "No alert threshold is set: no probability reached 80% precision on validation."
    if settings.alert_threshold is not None:
        alerting = (
            f"An alert is raised at a probability of {settings.alert_threshold:.3f} or more, where "
            "80% of alerts were right on validation."
        )
    calibration = "The probability is not calibrated: it is the value of the rule."
    if settings.calibration:
        calibration = "The probability is calibrated by Platt's method, fitted on validation."
    adapter = f", with a LoRA adapter of rank {lora.rank}" if lora else ""
    size = f"{model.window_tokens()} tokens"
    return {
        "model": name,
        "title": card.get("title") or "Readmission from the notes of a stay",
        "version": __version__,
        "fingerprint": model.fingerprint()[:12],
        "encoder": encoder or None,
        "network": f"BERT encoder {encoder or 'without a name'}{adapter}, and a classification "
        "head on its CLS token for each window of the notes (ClinicalBERT, Huang et al. 2019).",
        "windows": f"Each note is cut into windows of at most {size}, none is dropped; a stay's "
        "score is (P_max + P_mean n/c) / (1 + n/c) over its n windows, with "
        f"c = {settings.c:g}.",
        "calibration": calibration,
        "alerting": alerting,
        "limits": _words(card.get("limits")),
        "profile_remark": model.manifest.get("profile", {}).get("remark"),
        "evidence": _evidence(model.manifest.get("evidence")),
    }


def _words(markdown: str | None) -> str | None:
    """A text of the model's card without the marks of code."""
    return markdown.replace("`", "") if markdown else None


def _training_facts(manifest: Mapping[str, Any]) -> Facts:
    sides, shares = manifest.get("stays", {}), manifest.get("prevalence", {})
    settings = manifest.get("training")
    counts = "; ".join(
        f"{name}: {sides[side]:,} stays, {shares[side]:.1%} readmitted"
        for side, name in (("train", "Training"), ("val", "validation"), ("test", "test"))
        if side in sides and side in shares
    )
    training = imbalance = None
    if isinstance(settings, dict):
        count = f"{settings['epochs']:g}"
        training = (
            f"Trained for {count} epoch{'' if count == '1' else 's'} with the objective "
            f"{manifest.get('objective')}, learning rate {settings['learning_rate']:g}, seed "
            f"{settings['seed']}; the weights with the best validation AUROC were kept, and c, the "
            "calibrator and the alert threshold were chosen on validation."
        )
        imbalance = (
            "Readmitted stays were weighted up in training by the ratio of the others to them; no "
            "side was resampled, and the probability was calibrated on validation afterwards."
        )
    scores = next(iter(manifest.get("scores", {}).values()), None)
    validity = None
    if scores and scores["auroc"]["value"] is not None:
        area = _spell(scores["auroc"])
        validity = (
            f"On the test side of its own cohort ({scores['n_stays']:,} stays of "
            f"{scores['n_patients']:,} other patients): AUROC {area}."
        )
    found, fitted = manifest.get("disparities"), manifest.get("recalibrated")
    updating = "The model was not updated in this evaluation."
    if fitted:
        updating = (
            f"Before this evaluation, c, the calibrator and the alert threshold were fitted on "
            f"{fitted['stays']:,} other stays ({fitted['readmitted']:,} readmitted); the weights "
            "are those of training."
        )
    return {
        "updating": updating,
        "training_data": _words(manifest.get("card", {}).get("data")),
        "training_stays": f"{counts}." if counts else None,
        "training": training,
        "imbalance": imbalance,
        "own_validity": validity,
        "own_fairness": " ".join(found) if found else None,
    }


def _cohort_facts(summary: Mapping[str, Any] | None) -> Facts:
    if summary is None:
        names = ("definition", "exclusions", "notes", "preparation", "missing", "flow", "caveats")
        return {**dict.fromkeys(names), "horizon": "30"}
    definition, steps, kept = summary["definition"], summary["steps"], summary["kept"]
    removed = [f"{row['reason']} ({row['removed']:,})" for row in steps[1:] if row["removed"]]
    kind = "discharge summary and its addenda"
    if summary["notes"] == "early":
        kind = f"notes of the first {summary['hours']:g} hours after admission"
    faults = sum(issue["count"] for issue in summary["issues"])
    return {
        "horizon": f"{definition['horizon_days']:g}",
        "definition": f"{definition['name']} version {definition['version']}",
        "exclusions": "; ".join(removed) or "none",
        "notes": f"The {kind}, as text; no note written after the readmission.",
        "preparation": "Times, ids and duplicates are checked row by row; "
        f"{faults:,} faults are listed with the cohort. De-identification marks are blanked. It is "
        "the same for all groups of patients.",
        "missing": "A stay without a note is excluded and counted; nothing is imputed. "
        "A missing attribute of a patient forms the group 'not recorded'.",
        "flow": f"{steps[0]['left']:,} admissions, {kept['stays']:,} stays of "
        f"{kept['patients']:,} patients kept, {kept['readmitted']:,} readmitted.",
        "caveats": " ".join(summary["caveats"]) or None,
    }


def _evidence(found: Mapping[str, Any] | None) -> str | None:
    """How much more named passages carry the risk than random ones, from a model's manifest."""
    if not found:
        return None
    ours, chance = (
        _spell(next(m for m in found["measures"] if (m["method"], m["measure"]) == wanted))
        for wanted in (("occlusion", EVIDENCE), ("random", EVIDENCE))
    )
    return (
        f"Explanations were tested on {found['stays']} stays of {found['patients']} patients "
        f"({found['cohort']}): without the 5% of a stay's tokens that are named first, its risk "
        f"falls by {ours} on average; without random sentences of the same length, by {chance}."
    )


def _characteristics(groups: pd.DataFrame) -> str | None:
    """The number of stays of each subgroup."""
    columns = [
        f"{column}: {', '.join(f'{row.group} {row.n:,}' for row in part.itertuples())}"
        for column, part in groups.groupby("column", sort=False)
    ]
    return f"Stays by {'; '.join(columns)}." if columns else None


def _evaluation_facts(comparison: Comparison) -> Facts:
    found = next(iter(comparison.evaluations.values()))
    fairness = " ".join(disparities(comparison.groups))
    validity = (
        f"AUROC {found.auroc}, AUPRC {found.auprc}, calibration slope {found.calibration_slope}, "
        f"on {found.n_stays:,} stays of {found.n_patients:,} patients."
    )
    use = comparison.use
    findings = " ".join(use.findings) if use else ""
    months = bool(use) and use is not None and use.periods is not None and len(use.periods) > 1
    facts: Facts = {
        "evaluated": f"{found.n_stays:,} stays of {found.n_patients:,} patients, of which "
        f"{found.n_readmitted:,} were readmitted.",
        "process": "The model was applied as it is, without a change; intervals are from "
        f"{found.bootstrap:,} resamples of patients with all their stays.",
        "partition": "Patients, not stays, are assigned to training, validation and test; this "
        "evaluation uses one side only.",
        "validity": validity,
        "fairness": fairness,
        "usefulness": " ".join(comparison.verdicts)
        or "It ranks better than chance and than the "
        "baselines, and is not found to be off in calibration.",
        "reliability": f"Calibration slope {found.calibration_slope}. "
        f"{findings or 'No drift since training beyond chance was found.'}",
        "heterogeneity": "By period of discharge, see the section on time; hospitals or wards were "
        "not compared."
        if months
        else None,
        "characteristics": _characteristics(comparison.groups),
        "differences": None
        if use is None or use.inputs.empty
        else findings or "No quantity of the notes differs from training beyond chance.",
        "external_validity": None,
        "external_fairness": None,
        "local_validity": None,
        "local_fairness": None,
    }
    if comparison.same_source:
        facts |= {"own_validity": validity, "own_fairness": fairness}
    return facts


def relate(facts: Facts, *, external: bool, local: bool) -> Facts:
    """The facts, with this evaluation as the external or the local one, as the hospital says."""
    related = dict(facts)
    for kind, wanted in (("external", external), ("local", local)):
        if wanted:
            related[f"{kind}_validity"] = facts["validity"]
            related[f"{kind}_fairness"] = facts["fairness"]
    return related


def _spell(interval: Mapping[str, Any]) -> str:
    from domainbert.intervals import spell

    return spell(interval)
