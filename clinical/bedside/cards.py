"""CDS Hooks cards: what a clinician sees of a risk."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import domainbert
from clinical.bedside.fhir import receipt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clinical.bedside.fhir import Documents, Row

LONGEST = 300  # characters shown of a passage
SYSTEM = "urn:domainbert:override-reasons"
REASONS = {
    "already-planned": "Follow-up is already arranged",
    "not-applicable": "Not applicable: transfer, hospice, or a planned return",
    "disagree": "I do not share this assessment",
    "wrong-notes": "It rests on notes that are wrong or out of date",
    "other": "Another reason",
}
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&:@])")


def risk_card(
    row: Row,
    passages: Sequence[Row],
    documents: Documents,
    *,
    name: str,
    model: Mapping[str, str],
    page: str,
) -> dict[str, Any]:
    """The card of a risk: `warning` from the model's alert threshold on, else `info`.

    `row` and `passages` are of the tasks; `name` is the card's UUID; `model` has `name`,
    `fingerprint`, and the addresses `card` and `report`; `page` shows the evidence, or is "".
    """
    chance, percent = row["probability"], round(100 * row["probability"])
    summary = f"30-day readmission risk {percent}%: about {percent} of 100 such patients come back"
    meaning = (
        f"**Probability {chance:.3f}, calibrated.** Of 100 patients with such a risk, about "
        f"{percent} are readmitted within 30 days, and {100 - percent} are not."
    )
    if not row["calibrated"]:
        summary = f"30-day readmission score {percent}%"
        meaning = f"**Score {chance:.3f}.** It ranks stays."
    lines = [meaning, "", "What raises it most:"]
    for number, each in enumerate([p for p in passages if p["direction"] == "raises"], start=1):
        record = documents.records[each["note"]]  # a model that joins notes does not tell which
        origin = documents.about[record["note_id"]] if each["text"] in record["text"] else "notes"
        lines += ["", f"{number}. {escaped(origin)}", f"   > {escaped(each['text'])}"]
    count = len(documents.records)
    lines += ["", receipt(row, f" of {count} note{'s' * (count != 1)}", documents.unread), ""]
    version = f"{escaped(model['name'])} {model['fingerprint'][:12]}, {domainbert.__version__}"
    report = f" Report: {model['report']}" if model["report"] else ""
    lines += [f"Model {version}. Card: {model['card']}{report}", ""]
    lines += ["One source of information for people who know the patient; no medical device."]
    reasons = [{"code": code, "system": SYSTEM, "display": say} for code, say in REASONS.items()]
    link = {"label": "The notes with the passages", "url": page, "type": "absolute"}
    return {
        "uuid": name,
        "summary": summary,
        "detail": "\n".join(lines),
        "indicator": "warning" if row.get("alert") else "info",
        "source": {"label": f"domainbert, {model['name'][-60:]}", "url": model["card"]},
        "overrideReasons": reasons,
    } | ({"links": [link]} if page else {})


def escaped(text: str) -> str:
    """A text as Markdown that shows just this text, on one line, cut where it is long."""
    line = " ".join(text.split())
    if len(line) > LONGEST:
        line = line[:LONGEST].rpartition(" ")[0] + " …"
    return _MARKUP.sub(r"\\\1", line)
