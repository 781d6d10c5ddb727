"""Risks and proposed groups of codes as other tools read them: MEDS, OMOP and FHIR."""

import glob
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from clinical.cohort.result import Cohort, whole_ids
from clinical.stays.choice import is_true
from domainbert.errors import UserError
from domainbert.files import JsonObject, data_text
from domainbert.tables import id_key, id_text, is_missing, read_table

_WHOLE_IDS = {"meds": ["patient_id"], "omop": ["patient_id", "stay_id"]}
_INSTANT = "%Y-%m-%dT%H:%M:%SZ"
_ICD10 = re.compile(r"[A-Z]\d[0-9A-Z](\.?[0-9A-Z]{1,4})?")
_ID = re.compile(r"[A-Za-z0-9\-.]{1,64}")


def export_scores(
    scores: Path, cohort: Path, form: str, *, top: bool = False
) -> list[Path]:
    """Write the risks of a score table in another form, beside the table.

    Of a table of groups of codes, FHIR Conditions (see `condition`) and rows of OMOP are written
    for those that reach their threshold; with the `top` ones of each stay in the table, for all.

    Args:
        scores: a table that `clinical score` wrote, with its summary beside it.
        cohort: the cohort that was scored, which has times and outcomes.
        form: "fhir" (see `risk_assessment`), "meds" or "omop" (`forms/*.sql` have the columns).
        top: the table has the most probable groups of each stay.

    Returns:
        The files.

    Raises:
        UserError: what was scored is not a cohort, an id is not a whole number (MEDS, OMOP), or
            groups are asked for as MEDS.
    """
    summary_file = scores.with_name(f"{scores.name}.summary.json")
    summary = json.loads(summary_file.read_text("utf-8"))
    source = Cohort.open(cohort)
    risks = read_table(
        scores, schema={"probability": "float", "score": "float"}
    )
    risks = risks[risks["status"] == "ok"]
    if "group" in risks:
        if not top:
            risks = risks[risks["proposed"].map(is_true).astype(bool)]
        rows = _scored_stays(source, risks)
        columns = ["group", "name", "probability"]
        rows[columns] = risks[columns].to_numpy()
        return _export_groups(rows, scores, form, method=_method(summary))
    rows = _scored_stays(source, risks)
    rows = rows.assign(
        probability=risks["probability"].to_numpy(),
        event=source.summary["definition"]["event"],
        method=_method(summary),
    )
    if form == "fhir":
        path = scores.with_suffix(".fhir.ndjson")
        times = rows["prediction_time"].dt.strftime(_INSTANT)
        with path.open("w", encoding="utf-8") as file:
            for row, time in zip(rows.to_dict("records"), times, strict=True):
                resource = risk_assessment(
                    row, row["method"], row["event"], time=time
                )
                file.write(json.dumps(resource) + "\n")
        return [path]
    alerts = risks.get("alert", risks["probability"] >= 0.5)
    rows["alert"] = (alerts.astype(str).str.lower() == "true").to_numpy()
    for name in _WHOLE_IDS[form]:
        rows[name] = whole_ids(rows[name])
    stem = str(scores.with_suffix("")).replace("'", "''")
    with duckdb.connect() as con:
        con.register("RISKS", rows)
        query = data_text(__file__, f"forms/{form}.sql")
        con.execute(query.replace("{out}", stem))
    return sorted(scores.parent.glob(f"{scores.stem}.{form}*"))


def _method(summary: Mapping[str, Any]) -> str:
    """The name of a model, and which of that name it is."""
    return (
        f"{summary['model_name']} {summary['model'][:12]} {summary['version']}"
    )


def _export_groups(
    rows: pd.DataFrame, scores: Path, form: str, *, method: str
) -> list[Path]:
    """Write groups of stays: `patient_id, stay_id, prediction_time, group, name, probability`."""
    if form == "meds":
        raise UserError(
            "MEDS predictions are of one outcome; write groups of codes as omop or fhir"
        )
    if form == "fhir":
        path = scores.with_suffix(".fhir.ndjson")
        times = rows["prediction_time"].dt.strftime(_INSTANT)
        with path.open("w", encoding="utf-8") as file:
            for row, time in zip(rows.to_dict("records"), times, strict=True):
                resource = condition(row, method, time=time)
                file.write(json.dumps(resource) + "\n")
        return [path]
    for name in _WHOLE_IDS[form]:
        rows[name] = whole_ids(rows[name])
    stem = str(scores.with_suffix("")).replace("'", "''")
    with duckdb.connect() as con:
        con.register("GROUPS", rows)
        query = data_text(__file__, "forms/omop_groups.sql")
        con.execute(query.replace("{out}", stem))
    return sorted(scores.parent.glob(f"{scores.stem}.{form}*"))


def condition(row: Mapping[str, Any], method: str, *, time: str) -> JsonObject:
    """The FHIR R4 Condition that proposes a group of codes for a stay.

    It is unconfirmed: nobody has made the diagnosis. A note has the probability and the model,
    since a Condition has no element for them. A group that is a category or a code of ICD-10 is a
    coding, every group is a text. `row` has `patient_id, stay_id, group, name, probability`.
    """
    group = row["group"]
    name = row["name"]
    code: JsonObject = {"text": group}
    if not is_missing(name):
        code["text"] = f"{group} {name}".strip()
    if _ICD10.fullmatch(group):
        code["coding"] = [
            {"system": "http://hl7.org/fhir/sid/icd-10-cm", "code": group}
        ]
    percent = 100 * row["probability"]
    remark = (
        f"Proposed by {method} with a probability of {percent:.1f} percent."
    )
    return {
        "resourceType": "Condition",
        "id": re.sub(
            "[^A-Za-z0-9.-]", "-", f"proposed-{row['stay_id']}-{group}"
        )[:64],
        "verificationStatus": _concept("condition-ver-status", "unconfirmed"),
        "category": [_concept("condition-category", "encounter-diagnosis")],
        "code": code,
        "subject": _reference("Patient", row["patient_id"]),
        "encounter": _reference("Encounter", row["stay_id"]),
        "recordedDate": time,
        "note": [{"text": remark}],
    }


def _concept(code_system: str, code: str) -> JsonObject:
    """A CodeableConcept with a code of one of HL7's code systems."""
    system = f"http://terminology.hl7.org/CodeSystem/{code_system}"
    return {"coding": [{"system": system, "code": code}]}


def _scored_stays(source: Cohort, risks: pd.DataFrame) -> pd.DataFrame:
    """The stays of a cohort that have a risk, in the order of the risks."""
    values = {
        "path": glob.escape(str(source.path)),
        "hours": source.summary["hours"],
    }
    with duckdb.connect() as con:
        stays = con.execute(
            data_text(__file__, "forms/risks.sql"), values
        ).df()
    key = id_text if source.summary.get("exact_ids") else id_key
    by_key = stays.set_index(stays["stay_id"].map(key))
    return by_key.loc[risks["stay_id"].map(key)]


def risk_assessment(
    row: Mapping[str, Any],
    method: str,
    event: str,
    *,
    time: str,
    passages: Sequence[str] = (),
    documents: Sequence[str] = (),
    remark: str = "",
) -> JsonObject:
    """The FHIR R4 RiskAssessment of a stay.

    `probabilityDecimal` is a percentage, 0 to 100, since decimals are percentages in R4 (ras-2);
    the rationale repeats it, with the `passages` that raise the risk. The basis is `documents`,
    ids of the DocumentReferences that were read, or else the encounter. `row` has `patient_id`,
    `stay_id` and `probability`; `method` names the model, `event` what the risk is of.
    """
    percent = 100 * row["probability"]
    rationale = f"The risk is {percent:.2f} percent (0 to 100)."
    if passages:
        quotes = [f"“{' '.join(text.split())}”" for text in passages]
        rationale += f" Passages that raise it: {'; '.join(quotes)}"
    encounter = _reference("Encounter", row["stay_id"])
    references = [_reference("DocumentReference", name) for name in documents]
    prediction = {
        "outcome": {"text": event},
        "probabilityDecimal": round(percent, 4),
        "rationale": rationale,
    }
    assessment = {
        "resourceType": "RiskAssessment",
        "id": re.sub("[^A-Za-z0-9.-]", "-", f"risk-{row['stay_id']}")[:64],
        "status": "final",
        "method": {"text": method},
        "subject": _reference("Patient", row["patient_id"]),
        "encounter": encounter,
        "occurrenceDateTime": time,
        "basis": references or [encounter],
        "prediction": [prediction],
    }
    if remark:
        assessment["note"] = [{"text": remark}]
    return assessment


def _reference(resource_type: str, name: Any) -> JsonObject:
    """A reference to a resource; by identifier if FHIR does not allow the id in an address."""
    if _ID.fullmatch(str(name)):
        return {"reference": f"{resource_type}/{name}"}
    return {"type": resource_type, "identifier": {"value": str(name)}}
