"""Risks in the forms of other tools: MEDS predictions, OMOP rows, FHIR RiskAssessments."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from clinical.cohort.result import Cohort, meds_labels, whole_ids
from domainbert.tables import atomic_path, id_key, read_table, write_table

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

EXPORTS = ("meds", "omop", "fhir")
_COHORT_ID = 1  # of the OMOP cohort of all stays with a risk
_NLP = 32858  # OMOP type concept: NLP


def export_scores(scores: Path, cohort: Path, form: str) -> list[Path]:
    """Write the risks of a score table in another form, beside the table.

    Stays without a risk have none there either; the table says why.

    Args:
        scores: a table that `clinical score` wrote, with its summary beside it.
        cohort: the cohort that was scored, which has times and outcomes.
        form: one of `EXPORTS`.

    Returns:
        The files.

    Raises:
        UserError: what was scored is no cohort, or a patient id is no whole number (MEDS, OMOP).
    """
    summary = json.loads(scores.with_name(f"{scores.name}.summary.json").read_text("utf-8"))
    source = Cohort.open(cohort)
    risks = read_table(scores, schema={"probability": "float", "score": "float"})
    risks = risks[risks["status"] == "ok"]
    stays = source.labels()
    rows = stays.set_index(stays["stay_id"].map(id_key)).loc[risks["stay_id"].map(id_key)]
    rows = rows.reset_index(drop=True)
    rows["probability"] = risks["probability"].to_numpy()
    rows["alert"] = rows["probability"] >= 0.5
    if "alert" in risks.columns:
        rows["alert"] = (risks["alert"].astype(str).str.lower() == "true").to_numpy()
    about = {
        "event": source.summary["definition"]["event"],
        "method": " ".join((summary["model_name"], summary["model"][:12], summary["version"])),
    }
    if form == "fhir":
        return [_write_fhir(rows, scores.with_suffix(".fhir.ndjson"), about)]
    tables = {"meds": _meds, "omop": _omop}[form](rows, about)
    paths = [scores.with_suffix(f".{name}") for name in tables]
    for path, table in zip(paths, tables.values(), strict=True):
        write_table(table, path)
    return paths


def _meds(rows: pd.DataFrame, about: dict[str, str]) -> dict[str, pd.DataFrame]:
    """Predictions as meds-evaluation reads them: it wants a decision too."""
    del about
    predicted = meds_labels(rows).assign(
        predicted_boolean_value=rows["alert"],
        predicted_boolean_probability=rows["probability"].astype("float32"),
    )
    return {"meds.parquet": predicted}


def _omop(rows: pd.DataFrame, about: dict[str, str]) -> dict[str, pd.DataFrame]:
    """A COHORT of the stays, and an OBSERVATION with each risk; columns as in CDM 5.4."""
    import pandas as pd

    person = whole_ids(rows["patient_id"])
    cohort = pd.DataFrame({
        "cohort_definition_id": _COHORT_ID, "subject_id": person,
        "cohort_start_date": rows["admit_time"].dt.date,
        "cohort_end_date": rows["discharge_time"].dt.date,
    })  # fmt: skip
    observation = pd.DataFrame({
        "observation_id": range(1, len(rows) + 1), "person_id": person,
        "observation_concept_id": 0, "observation_date": rows["prediction_time"].dt.date,
        "observation_datetime": rows["prediction_time"],
        "observation_type_concept_id": _NLP, "value_as_number": rows["probability"],
        "value_as_string": None, "value_as_concept_id": None, "qualifier_concept_id": None,
        "unit_concept_id": None, "provider_id": None,
        "visit_occurrence_id": whole_ids(rows["stay_id"]), "visit_detail_id": None,
        "observation_source_value": f"risk: {about['event']}"[:50],
        "observation_source_concept_id": 0, "unit_source_value": None,
        "qualifier_source_value": about["method"][:50], "value_source_value": None,
        "observation_event_id": None, "obs_event_field_concept_id": None,
    })  # fmt: skip
    return {"omop.COHORT.csv": cohort, "omop.OBSERVATION.csv": observation}


def _write_fhir(rows: pd.DataFrame, path: Path, about: dict[str, str]) -> Path:
    """RiskAssessments as JSON lines; `probabilityDecimal` is a percentage, as R4 has it."""
    with atomic_path(path) as partial, partial.open("w", encoding="utf-8") as file:
        for row in rows.itertuples():
            percent = round(100 * row.probability, 4)
            prediction = {
                "outcome": {"text": about["event"]},
                "probabilityDecimal": percent,
                "rationale": f"The risk is {percent:.2f} percent (0 to 100).",
            }
            resource: dict[str, Any] = {
                "resourceType": "RiskAssessment",
                "id": re.sub("[^A-Za-z0-9.-]", "-", f"risk-{row.stay_id}")[:64],
                "status": "final",
                "method": {"text": about["method"]},
                "subject": {"reference": f"Patient/{row.patient_id}"},
                "encounter": {"reference": f"Encounter/{row.stay_id}"},
                "occurrenceDateTime": f"{row.prediction_time:%Y-%m-%dT%H:%M:%SZ}",
                "prediction": [prediction],
            }
            file.write(f"{json.dumps(resource, ensure_ascii=False)}\n")
    return path
