"""CDS Hooks 2.0.1: discovery, the readmission service and its feedback."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator
from starlette.exceptions import HTTPException

from clinical.bedside import fhir
from clinical.bedside.cards import REASONS, SYSTEM, risk_card
from domainbert.service.http import Answer

if TYPE_CHECKING:
    from domainbert.service.app import Service
    from domainbert.service.served import Served

KEPT, KEPT_SECONDS = 200, 900.0  # evidence of cards, in memory only


class Message(BaseModel):
    """Part of a message, with the standard's names; unknown fields are clients' extensions."""

    model_config = ConfigDict(extra="ignore", strict=True)


class _Authorization(Message):
    access_token: str = Field(min_length=1)
    token_type: Literal["Bearer"]
    expires_in: int
    scope: str
    subject: str
    patient: str | None = None


class _Context(Message):
    userId: str  # noqa: N815
    patientId: str = Field(min_length=1)  # noqa: N815
    encounterId: str | None = None  # noqa: N815


class HookRequest(Message):
    """The call of a service."""

    hook: str
    hookInstance: uuid.UUID = Field(strict=False)  # noqa: N815
    fhirServer: str | None = None  # noqa: N815
    fhirAuthorization: _Authorization | None = None  # noqa: N815
    context: _Context
    prefetch: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _invariants(self) -> HookRequest:
        if self.fhirAuthorization and not self.fhirServer:  # cds-r-1
            raise ValueError("fhirServer: required where there is fhirAuthorization")
        return self


class _OverrideReason(Message):
    reason: dict[str, Any] | None = None
    userComment: str | None = None  # noqa: N815


class _Feedback(Message):
    card: uuid.UUID = Field(strict=False)
    outcome: Literal["accepted", "overridden"]  # cds-fb-1
    acceptedSuggestions: list[dict[str, Any]] | None = None  # noqa: N815
    overrideReason: _OverrideReason | None = None  # noqa: N815
    outcomeTimestamp: AwareDatetime = Field(strict=False)  # noqa: N815

    @model_validator(mode="after")
    def _invariants(self) -> _Feedback:
        if self.outcome == "accepted" and not self.acceptedSuggestions:  # cds-fb-2
            raise ValueError("acceptedSuggestions: required where the outcome is accepted")
        given = self.overrideReason
        if given and not given.reason and not given.userComment:  # cds-fb-3
            raise ValueError("overrideReason: expected a reason, a userComment, or both")
        return self


class FeedbackRequest(Message):
    """The body of the feedback endpoint."""

    feedback: list[_Feedback]


class HookService(ABC):
    """One CDS service: what discovery says of it, and how it answers."""

    id: ClassVar[str]  # last part of its address
    hooks: ClassVar[tuple[str, ...]]  # each is one entry of discovery
    about: ClassVar[dict[str, Any]]  # title, description, usageRequirements, prefetch
    reasons: ClassVar[tuple[str, ...]] = ()  # codes for overriding its cards

    def __init__(self, service: Service, served: Served) -> None:
        self._service, self._served = service, served

    @abstractmethod
    def cards(self, request: HookRequest) -> list[dict[str, Any]]:
        """The cards for a call; an `HTTPException` 412 where data that is needed is missing."""

    def answer(self, request: HookRequest) -> Answer:
        """The response to a call."""
        if request.hook not in self.hooks:
            raise HTTPException(400, f"hook: expected {' or '.join(self.hooks)}")
        return Answer({"cards": self.cards(request)})

    def keep(self, request: FeedbackRequest) -> Answer:
        """Keep feedback without text: no comments, no codes of others."""
        for entry in request.feedback:
            coded = (entry.overrideReason and entry.overrideReason.reason) or {}
            code = str(coded.get("code"))
            ours = coded.get("system") == SYSTEM and code in self.reasons
            reason = code if ours else "other" if coded else ""
            self._service.ledger.feedback(self.id, str(entry.card), entry.outcome, reason)
        return Answer({})


class ReadmissionService(HookService):
    """The risk of readmission, at discharge and when a record is opened."""

    id = "readmission"
    hooks = ("encounter-discharge", "patient-view")
    reasons = tuple(REASONS)
    about: ClassVar = {
        "title": "Risk of readmission within 30 days",
        "description": (
            "Reads the notes of a stay and gives the probability of an unplanned readmission "
            "within 30 days, with the passages that raise it and a receipt of what was read."
        ),
        "usageRequirements": "DocumentReferences with plain text; or a FHIR server to ask.",
        "prefetch": {
            "encounter": "Encounter/{{context.encounterId}}",
            "notes": "DocumentReference?encounter={{context.encounterId}}",
        },
    }

    def __init__(self, service: Service, served: Served) -> None:
        super().__init__(service, served)
        self._kept: dict[str, tuple[float, dict[str, Any]]] = {}
        service.app.get("/evidence/{card}", summary="Evidence of a card")(self._evidence)

    def cards(self, request: HookRequest) -> list[dict[str, Any]]:
        """One card; none where a record is opened outside of a stay."""
        stay = (request.context.encounterId or "").rpartition("/")[2]
        if not stay and request.hook == "patient-view":
            return []
        if not stay:
            raise HTTPException(400, "context.encounterId: required for encounter-discharge")
        documents = self._documents(request, stay)
        if not documents.records:
            why = "; ".join(f"{why}: {n}" for why, n in documents.unread.items()) or "none was sent"
            raise HTTPException(412, f"prefetch.notes: no note of this stay can be read ({why})")
        records = self._service.check(documents.records)
        (row,) = self._service.score("readmission", records)
        if row["status"] != "ok":
            raise HTTPException(412, f"prefetch.notes: no risk, because {row['reason']}")
        passages = self._service.score("passages", records)
        notes = {record["note_id"]: record for record in records}
        documents.records = [notes[note] for note in passages[0]["notes_read"]]
        documents.unread["that the model does not choose"] += len(records) - len(documents.records)
        name, model, settings = str(uuid.uuid4()), self._served, self._service.settings
        told = {"name": model.name, "fingerprint": model.fingerprint, "report": settings.report}
        told["card"] = f"{settings.address}/v1/models/{model.name}"
        # Another worker would not have the evidence.
        page = f"{settings.address}/#card={name}" if settings.workers == 1 else ""
        evidence = {"records": documents.records, "risk": row, "passages": passages}
        self._kept[name] = time.monotonic() + KEPT_SECONDS, evidence
        kept = [*self._kept.items()][-KEPT:]
        self._kept = {each: k for each, k in kept if k[0] > time.monotonic()}
        self._service.ledger.served(self.id, model.fingerprint, [row], card=name)
        return [risk_card(row, passages, documents, name=name, model=told, page=page)]

    def _documents(self, request: HookRequest, stay: str) -> fhir.Documents:
        """The notes of a call: prefetched, else from the client's FHIR server."""
        sent, patient = request.prefetch or {}, request.context.patientId.rpartition("/")[2]
        encounters = fhir.entries(sent.get("encounter"))
        for encounter in encounters:
            fhir.check_patient(encounter, patient)
        periods = fhir.dicts([encounter.get("period") for encounter in encounters])
        admitted = next((p["start"] for p in periods if isinstance(p.get("start"), str)), None)
        resources, more = fhir.entries(sent.get("notes")), fhir.next_page(sent.get("notes"))
        fault = "is missing" if "notes" not in sent else "has another page" if more else ""
        if any(each.get("resourceType") == "OperationOutcome" for each in resources):
            fault = "is an error"
        if fault:
            if not (request.fhirServer and request.fhirAuthorization):
                raise HTTPException(412, f"prefetch.notes {fault}, and no FHIR server was named")
            token, hosts = request.fhirAuthorization.access_token, self._service.settings.fhir
            ask = (request.fhirServer, token, stay)
            resources += fhir.fetch_documents(*ask, hosts=hosts, start=more)
        return fhir.read_documents(resources, patient, stay, admitted)

    async def _evidence(self, card: str) -> Answer:
        until, evidence = self._kept.get(card, (0.0, {}))
        if until < time.monotonic():
            raise HTTPException(404, f"evidence is kept for {KEPT_SECONDS / 60:g} minutes")
        return Answer(evidence)


def add_services(service: Service, offered: Sequence[HookService]) -> None:
    """Add discovery, the services and their feedback to the application."""
    service.errors["/cds-services"] = fhir.operation_outcome

    async def discover() -> Answer:
        same = {"version": "2.0.1"}
        of = [(each, hook) for each in offered for hook in each.hooks]
        return Answer({"services": [{"hook": h, "id": s.id, **s.about, **same} for s, h in of]})

    service.app.get("/cds-services", summary="CDS Hooks: discovery")(discover)
    for each in offered:
        path, told = f"/cds-services/{each.id}", f"CDS Hooks: {each.about['title']}"
        service.app.post(path, summary=told)(each.answer)
        service.app.post(f"{path}/feedback", summary=f"{told}: feedback")(each.keep)
