"""The risk of readmission as a CDS Hooks card, its evidence, and as a FHIR RiskAssessment."""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken
from jinja2 import Environment, PackageLoader
from starlette.exceptions import HTTPException

import domainbert
from clinical.bedside.hooks import HookRequest, HookService, operation_outcome
from clinical.cohort.attachments import address_id
from clinical.risk.exports import risk_assessment
from domainbert.service.http import AsciiResponse
from domainbert.service.ledger import now

if TYPE_CHECKING:
    from domainbert.service.app import Service
    from domainbert.service.served import Served

    Row = Mapping[str, Any]

KEPT_SECONDS = 900
_TEXTS = json.loads(
    (resources.files(__package__) / "texts/readmission.json").read_text("utf-8")
)
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&:@])")


class ReadmissionService(HookService):
    """The risk of readmission, at discharge and when a record is opened."""

    id = "readmission"
    hooks = ("encounter-discharge", "patient-view")
    reasons = _TEXTS["reasons"]

    def __init__(self, service: Service, served: Served) -> None:
        super().__init__(service)
        fingerprint = served.model.fingerprint()[:12]
        self._method = (
            f"{served.name} {fingerprint}, domainbert {domainbert.__version__}"
        )
        self._outcome = str(served.tasks[self.id].about()["outcome"])
        self.about = _TEXTS["about"] | {"title": f"Risk: {self._outcome}"}
        self._folder = service.work / "evidence"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        service.app.get("/evidence/{key}", summary="Evidence of a card")(self._evidence)

    def cards(self, request: HookRequest) -> list[dict[str, object]]:
        """One card; none where a record is opened outside of a stay."""
        stay = address_id(request.context.encounterId or "")
        if not stay and request.hook == "patient-view":
            return []
        if not stay:
            raise HTTPException(
                400, "context.encounterId: required for encounter-discharge"
            )
        records, receipt = self.documents(request, stay)
        if not records:
            why = (
                "; ".join(f"{why}: {n}" for why, n in receipt.items() if n)
                or "none was sent"
            )
            raise HTTPException(
                412, f"prefetch.notes: no note of this stay can be read ({why})"
            )
        name = str(uuid.uuid4())
        passages = self._service.score("passages", records)
        (row,) = self._service.score(self.id, records, card=name)
        if row["status"] != "ok":
            raise HTTPException(
                412, f"prefetch.notes: no risk, because {row['reason']}"
            )
        notes = {record["note_id"]: record for record in records}
        read = [notes[note] for note in passages[0]["notes_read"]]
        receipt["that the model does not choose, not read"] = len(notes) - len(read)
        evidence = {"records": read, "risk": row, "passages": passages}
        key, settings = self._keep(evidence), self._service.settings
        model = {
            "outcome": self._outcome,
            "method": self._method,
            "report": settings.report,
        }
        text = _TEMPLATES.get_template("card.md.j2").render(
            **evidence, **model, receipt=receipt
        )
        summary, _, detail = text.partition("\n")
        link = {"label": "The notes with the passages", "type": "absolute"}
        card = {
            "uuid": name,
            "summary": summary,
            "detail": detail,
            "indicator": "warning" if row.get("alert") else "info",
            "source": {
                "label": self._method,
                "url": settings.report or settings.address,
            },
            "overrideReasons": self.reasons,
            "links": [link | {"url": f"{settings.address}/#card={key}"}],
        }
        return [card]

    def assessments(self, records: Sequence[Row]) -> AsciiResponse:
        """`?format=fhir`: a RiskAssessment or OperationOutcome, of several stays in a Bundle."""
        passages = self._service.score("passages", records)
        made = [
            self._assessment(row, passages)
            for row in self._service.score(self.id, records)
        ]
        entries = [{"resource": each} for each in made]
        bundle = {"resourceType": "Bundle", "type": "collection", "entry": entries}
        whole = made[0] if len(made) == 1 else bundle
        failed = whole["resourceType"] == "OperationOutcome"
        return AsciiResponse(
            whole, 422 if failed else 200, media_type="application/fhir+json"
        )

    def _assessment(self, row: Row, passages: Sequence[Row]) -> dict[str, Any]:
        if row["status"] != "ok" or not row.get("stay_id") or not row.get("patient_id"):
            why = row["reason"] or "a RiskAssessment needs patient_id and stay_id"
            return operation_outcome(422, f"no risk: {why}")
        of_stay = [
            passage for passage in passages if passage["stay_id"] == row["stay_id"]
        ]
        return risk_assessment(
            row,
            self._method,
            self._outcome.capitalize(),
            time=now(),
            passages=[
                each["text"] for each in of_stay if each["direction"] == "raises"
            ],
            documents=[note for note in of_stay[0]["notes_read"] if note],
            remark=_TEMPLATES.get_template("receipt.j2").render(risk=row),
        )

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

    def _evidence(self, key: str) -> AsciiResponse:
        try:
            file = self._folder / hashlib.sha256(key.encode()).hexdigest()
            found = Fernet(key).decrypt(file.read_bytes(), ttl=KEPT_SECONDS)
        except (OSError, ValueError, InvalidToken):
            raise HTTPException(
                404, f"evidence is kept {KEPT_SECONDS / 60:g} minutes"
            ) from None
        return AsciiResponse(json.loads(found))


def escaped(text: str) -> str:
    """A text as Markdown that shows just this text, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


# Markdown for the EHR's own renderer: `escaped` takes the place of HTML's escapes.
_TEMPLATES = Environment(loader=PackageLoader(__package__, "texts"), autoescape=False)  # noqa: S701
_TEMPLATES.filters["escaped"] = escaped
