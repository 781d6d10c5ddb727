"""The risk of readmission as a CDS Hooks card, its evidence, and as a FHIR RiskAssessment."""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken
from jinja2 import Environment, PackageLoader
from starlette.exceptions import HTTPException

import domainbert
from clinical.bedside.hooks import HookService, operation_outcome
from clinical.risk.exports import risk_assessment
from domainbert.service.http import Answer
from domainbert.service.ledger import now

if TYPE_CHECKING:
    from clinical.bedside.hooks import HookRequest
    from domainbert.service.app import Service
    from domainbert.service.served import Served

    Row = Mapping[str, Any]

KEPT_SECONDS = 900
LONGEST = 300  # characters shown of a passage
_TEXTS = json.loads((resources.files(__package__) / "texts/readmission.json").read_text("utf-8"))
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&:@])")


class ReadmissionService(HookService):
    """The risk of readmission, at discharge and when a record is opened."""

    id = "readmission"
    hooks = ("encounter-discharge", "patient-view")
    reasons = _TEXTS["reasons"]

    def __init__(self, service: Service, served: Served) -> None:
        super().__init__(service, served)
        self._outcome = served.tasks["readmission"].about()["outcome"]
        texts = {name: _TEXTS["about"][name] for name in ("title", "description")}
        named = {name: text.replace("OUTCOME", self._outcome) for name, text in texts.items()}
        self.about = {**_TEXTS["about"], **named}
        self._folder = Path(service.settings.work) / "evidence"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        service.app.get("/evidence/{key}", summary="Evidence of a card")(self._evidence)

    def cards(self, request: HookRequest) -> list[dict[str, Any]]:
        """One card; none where a record is opened outside of a stay."""
        stay = (request.context.encounterId or "").rpartition("/")[2]
        if not stay and request.hook == "patient-view":
            return []
        if not stay:
            raise HTTPException(400, "context.encounterId: required for encounter-discharge")
        records, unread = self.documents(request, stay)
        if not records:
            why = "; ".join(f"{why}: {n}" for why, n in unread.items()) or "none was sent"
            raise HTTPException(412, f"prefetch.notes: no note of this stay can be read ({why})")
        self._service.check(records)
        (row,) = self._service.score("readmission", records)
        if row["status"] != "ok":
            raise HTTPException(412, f"prefetch.notes: no risk, because {row['reason']}")
        passages = self._service.score("passages", records)
        notes = {record["note_id"]: record for record in records}
        unread["that the model does not choose"] += len(records)
        records = [notes[note] for note in passages[0]["notes_read"]]
        unread["that the model does not choose"] -= len(records)
        name, settings = str(uuid.uuid4()), self._service.settings
        self._service.ledger.served(self.id, self._served.fingerprint, [row], card=name)
        key = self._keep({"records": records, "risk": row, "passages": passages})
        url = f"{settings.address}/v1/models/{self._served.name}"
        read = receipt(row, f" of {len(records)} note{'s' * (len(records) != 1)}", unread)
        about: dict[str, Any] = {
            "model": self._served,
            "outcome": self._outcome,
            "version": domainbert.__version__,
            "url": url,
        }
        about |= {"report": settings.report, "receipt": read, "row": row}
        about["passages"] = list(_raising(passages, records))
        text = _TEMPLATES.get_template("card.md.j2").render(about)
        summary, _, detail = text.partition("\n")
        card = {
            "uuid": name,
            "summary": summary,
            "detail": detail,
            "indicator": "warning" if row.get("alert") else "info",
            "source": {"label": f"domainbert, {self._served.name[-60:]}", "url": url},
            "overrideReasons": self.reasons,
        }
        link = {"label": "The notes with the passages", "type": "absolute"}
        return [card | {"links": [link | {"url": f"{settings.address}/#card={key}"}]}]

    def _keep(self, evidence: dict[str, Any]) -> str:
        """Keep evidence for all workers, encrypted; only the link of the card has the key."""
        with suppress(FileNotFoundError):  # another worker removed it
            for file in self._folder.iterdir():
                if file.stat().st_mtime < time.time() - KEPT_SECONDS:
                    file.unlink()
        key = Fernet.generate_key()
        file = self._folder / hashlib.sha256(key).hexdigest()
        file.write_bytes(Fernet(key).encrypt(json.dumps(evidence).encode()))
        return key.decode()

    def _evidence(self, key: str) -> Answer:
        try:
            file = self._folder / hashlib.sha256(key.encode()).hexdigest()
            found = Fernet(key).decrypt(file.read_bytes(), ttl=KEPT_SECONDS)
        except (OSError, ValueError, InvalidToken):
            why = f"evidence is kept for {KEPT_SECONDS / 60:g} minutes"
            raise HTTPException(404, why) from None
        return Answer(json.loads(found))


def _raising(passages: Sequence[Row], records: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """What each passage that raises the risk is of, and its text."""
    for each in passages:
        if each["direction"] == "raises":
            note = records[each["note"]]  # not told by a model that joins notes
            origin = ", ".join(filter(None, (note["category"], note["chart_time"][:10])))
            yield origin if each["text"] in note["text"] else "notes", each["text"]


def escaped(text: str) -> str:
    """A text as Markdown that shows just this text, on one line, cut where it is long."""
    line = " ".join(text.split())
    if len(line) > LONGEST:
        line = line[:LONGEST].rpartition(" ")[0] + " …"
    return _MARKUP.sub(r"\\\1", line)


# Markdown for the EHR's own renderer: `escaped` takes the place of HTML's escapes.
_TEMPLATES = Environment(loader=PackageLoader(__package__, "texts"), autoescape=False)  # noqa: S701
_TEMPLATES.filters["escaped"] = escaped


def receipt(row: Row, notes: str = "", unread: Mapping[str, int] | None = None) -> str:
    """What was read of a stay, in words."""
    said = [f"All {row['n_tokens']:,} tokens{notes} were read."]
    if row["reason"]:
        said = [f"{row['n_tokens']:,} tokens{notes} were read; {row['reason']}."]
    said += [f"Documents {why}, not read: {n}." for why, n in (unread or {}).items() if n]
    if not row["calibrated"]:
        said.append("The model has no calibrator: this is its score, not a calibrated chance.")
    return " ".join(said)


def risk_assessments(model: str, outcome: str) -> Callable[..., Answer]:
    """Makes `?format=fhir`: one RiskAssessment, or for several stays a Bundle of them."""

    def make(records: Sequence[Row], score: Callable[..., Any]) -> Answer:
        rows, passages = score("readmission", records), score("passages", records)
        made = [_assessment(row, passages, model, outcome) for row in rows]
        failed = len(made) == 1 and made[0]["resourceType"] == "OperationOutcome"
        entries = [{"resource": each} for each in made]
        bundle = {"resourceType": "Bundle", "type": "collection", "entry": entries}
        whole = made[0] if len(made) == 1 else bundle
        return Answer(whole, 422 if failed else 200, media_type="application/fhir+json")

    return make


def _assessment(row: Row, passages: Sequence[Row], model: str, outcome: str) -> dict[str, Any]:
    """The RiskAssessment of a row of risks; an OperationOutcome where there is no risk."""
    if row["status"] != "ok" or not row.get("stay_id") or not row.get("patient_id"):
        why = row["reason"] or "a RiskAssessment needs patient_id and stay_id"
        return operation_outcome(422, f"no risk: {why}")
    of_stay = [passage for passage in passages if passage["stay_id"] == row["stay_id"]]
    return risk_assessment(
        row,
        model,
        outcome.capitalize(),
        time=now(),
        passages=[passage["text"] for passage in of_stay if passage["direction"] == "raises"],
        documents=[note for note in of_stay[0]["notes_read"] if note],
        remark=receipt(row),
    )
