"""Risks in the forms of other tools: MEDS predictions, OMOP rows, FHIR RiskAssessments."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING

from clinical.cohort.result import Cohort, whole_ids
from domainbert.tables import id_key, read_table

if TYPE_CHECKING:
    from pathlib import Path


def export_scores(scores: Path, cohort: Path, form: str) -> list[Path]:
    """Write the risks of a score table in another form, beside the table.

    Stays without a risk have none there either; the table says why.

    Args:
        scores: a table that `clinical score` wrote, with its summary beside it.
        cohort: the cohort that was scored, which has times and outcomes.
        form: "meds", "omop" or "fhir"; `forms/*.sql` have the columns.

    Returns:
        The files.

    Raises:
        UserError: what was scored is no cohort, or an id is no whole number (MEDS, OMOP).
    """
    import duckdb

    summary = json.loads(scores.with_name(f"{scores.name}.summary.json").read_text("utf-8"))
    source = Cohort.open(cohort)
    risks = read_table(scores, schema={"probability": "float", "score": "float"})
    risks = risks[risks["status"] == "ok"]
    stays = source.labels()
    rows = stays.set_index(stays["stay_id"].map(id_key)).loc[risks["stay_id"].map(id_key)]
    rows = rows.assign(
        probability=risks["probability"].to_numpy(),
        alert=risks["probability"].to_numpy() >= 0.5,
        event=source.summary["definition"]["event"],
        method=f"{summary['model_name']} {summary['model'][:12]} {summary['version']}",
    )
    if "alert" in risks.columns:
        rows["alert"] = (risks["alert"].astype(str).str.lower() == "true").to_numpy()
    for name in {"meds": ["patient_id"], "omop": ["patient_id", "stay_id"]}.get(form, []):
        rows[name] = whole_ids(rows[name])
    script = (resources.files(__package__) / "forms" / f"{form}.sql").read_text("utf-8")
    with duckdb.connect() as con:
        con.register("RISKS", rows)
        con.execute(script.replace("{out}", str(scores.with_suffix("")).replace("'", "''")))
    return sorted(scores.parent.glob(f"{scores.stem}.{form}*"))
