"""CDS Hooks cards: what a clinician sees of a risk."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import domainbert
from clinical.bedside.fhir import receipt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clinical.bedside.fhir import Documents

PASSAGES = 3
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


@dataclass(frozen=True)
class Source:
    """Where a card comes from.

    Attributes:
        model: its name.
        fingerprint: of the model.
        card: address of its card.
        report: address of its report, or "".
        page: address of the page with the evidence, or "".
    """

    model: str
    fingerprint: str
    card: str
    report: str
    page: str


def risk_card(
    row: Mapping[str, Any],
    passages: Sequence[Mapping[str, Any]],
    documents: Documents,
    source: Source,
    *,
    name: str,
) -> dict[str, Any]:
    """The card of a risk: `warning` from the model's alert threshold on, else `info`.

    Args:
        row: of the task `readmission`.
        passages: of the task `passages`, strongest first.
        documents: the notes that were read.
        source: what the card names.
        name: its UUID.
    """
    percent, calibrated = round(100 * row["probability"]), row["calibrated"]
    what = "30-day readmission risk" if calibrated else "30-day readmission score"
    meaning = f": about {percent} of 100 such patients come back" if calibrated else ""
    links = [{"label": "The notes with the passages", "url": source.page, "type": "absolute"}]
    return {
        "uuid": name,
        "summary": f"{what} {percent}%{meaning}",
        "detail": _detail(row, passages, documents, source),
        "indicator": "warning" if row.get("alert") else "info",
        "source": {
            "label": f"domainbert, model {source.model}"[:80],
            "url": source.card,
            "topic": {"system": "urn:domainbert:topics", "code": "readmission"},
        },
        "overrideReasons": [
            {"code": code, "system": SYSTEM, "display": words} for code, words in REASONS.items()
        ],
        **({"links": links} if source.page else {}),
    }


def _detail(
    row: Mapping[str, Any],
    passages: Sequence[Mapping[str, Any]],
    documents: Documents,
    source: Source,
) -> str:
    """GitHub-flavoured Markdown; what comes from notes is escaped."""
    chance, percent = row["probability"], round(100 * row["probability"])
    meaning = (
        f"**Probability {chance:.3f}, calibrated.** Of 100 patients with such a risk, about "
        f"{percent} are readmitted within 30 days, and {100 - percent} are not."
    )
    if not row["calibrated"]:
        meaning = f"**Score {chance:.3f}.** It ranks stays; it is not a calibrated chance."
    raising = [each for each in passages if each.get("direction") == "raises"][:PASSAGES]
    lines = [meaning, "", "What raises it most:" if raising else "No passage raises it."]
    for number, each in enumerate(raising, start=1):
        lines += ["", f"{number}. {escaped(_origin(each, documents))}"]
        lines += [f"   > {escaped(each['text'])}"]
    lines += ["", receipt(row, len(documents.records), documents.unread)]
    report = f" Report: {source.report}" if source.report else ""
    about = f"Model {escaped(source.model)} {source.fingerprint[:12]}, domainbert"
    lines += ["", f"{about} {domainbert.__version__}. Card: {source.card}{report}"]
    lines += ["", "One source of information for people who know the patient; no medical device."]
    return "\n".join(lines)


def _origin(passage: Mapping[str, Any], documents: Documents) -> str:
    """Type and date of the note that a passage is in; models that join notes do not tell it."""
    texts = [record["text"] for record in documents.records]
    number = passage["note"]
    if number >= len(texts) or passage["text"] not in texts[number]:
        number = next((n for n, text in enumerate(texts) if passage["text"] in text), None)
    if number is None:
        return "notes"
    note = documents.records[number]["note_id"]
    return ", ".join(filter(None, (documents.kinds[note], documents.dates[note])))


def escaped(text: str) -> str:
    """A text as Markdown that shows just this text, on one line, cut where it is long."""
    line = " ".join(text.split())
    if len(line) > LONGEST:
        line = line[:LONGEST].rpartition(" ")[0] + " …"
    return _MARKUP.sub(r"\\\1", line)


def new_card_name() -> str:
    """A UUID that cannot be guessed: whoever has it may see the evidence."""
    return str(uuid.uuid4())
