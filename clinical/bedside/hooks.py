"""CDS Hooks 2.0.1: discovery, the readmission service and its feedback."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator
from clinical.bedside.cards import REASONS, SYSTEM, Source, new_card_name, risk_card
from clinical.bedside.fhir import (
    check_patient,
    entries,
    fetch_documents,
    next_page,
    operation_outcome,
    read_documents,
)
from domainbert.service.http import Answer, RefusedError

if TYPE_CHECKING:
    from starlette.requests import Request

    from domainbert.service.app import Service
    from domainbert.service.served import Served

KEPT, KEPT_SECONDS = 200, 900.0  # evidence of cards, in memory only


class _Message(BaseModel):
    """Part of a message of CDS Hooks; unknown fields are extensions, which clients may send."""

    model_config = ConfigDict(extra="ignore", strict=True)


class Authorization(_Message):
    """A token for the client's FHIR server."""

    access_token: str = Field(min_length=1)
    token_type: Literal["Bearer"]
    expires_in: int
    scope: str
    subject: str
    patient: str | None = None


class Context(_Message):
    """The fields that the contexts of our hooks share."""

    userId: str  # noqa: N815  (the names are the standard's)
    patientId: str = Field(min_length=1)  # noqa: N815
    encounterId: str | None = None  # noqa: N815


class HookRequest(_Message):
    """The call of a service."""

    hook: str
    hookInstance: str  # noqa: N815
    fhirServer: str | None = None  # noqa: N815
    fhirAuthorization: Authorization | None = None  # noqa: N815
    context: Context
    prefetch: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _whole(self) -> HookRequest:
        try:
            UUID(self.hookInstance.removeprefix("urn:uuid:"))
        except ValueError:
            raise ValueError("hookInstance: expected a UUID") from None
        if self.fhirAuthorization and not self.fhirServer:  # cds-r-1
            raise ValueError("fhirServer: required where there is fhirAuthorization")
        return self


class Coding(_Message):
    """A code of a code system."""

    code: str
    system: str | None = None
    display: str | None = None


class OverrideReason(_Message):
    """Why a card was overridden."""

    reason: Coding | None = None
    userComment: str | None = None  # noqa: N815


class AcceptedSuggestion(_Message):
    """A suggestion that was accepted."""

    id: str


class Feedback(_Message):
    """What became of a card."""

    card: str
    outcome: Literal["accepted", "overridden"]  # cds-fb-1
    acceptedSuggestions: list[AcceptedSuggestion] | None = None  # noqa: N815
    overrideReason: OverrideReason | None = None  # noqa: N815
    outcomeTimestamp: AwareDatetime = Field(strict=False)  # noqa: N815

    @model_validator(mode="after")
    def _whole(self) -> Feedback:
        try:
            UUID(self.card.removeprefix("urn:uuid:"))
        except ValueError:
            raise ValueError("card: expected the UUID of a card") from None
        if self.outcome == "accepted" and not self.acceptedSuggestions:  # cds-fb-2
            raise ValueError("acceptedSuggestions: required where the outcome is accepted")
        given = self.overrideReason
        if given and not given.reason and not given.userComment:  # cds-fb-3
            raise ValueError("overrideReason: expected a reason, a userComment, or both")
        return self


class FeedbackRequest(_Message):
    """The body of the feedback endpoint."""

    feedback: list[Feedback]


class HookService(ABC):
    """One CDS service: what discovery says of it, and how it answers.

    Attributes:
        id: last part of its address.
        hooks: that it answers; each is one entry of discovery.
        prefetch: hook -> key -> FHIR query.
    """

    id: ClassVar[str]
    hooks: ClassVar[tuple[str, ...]]
    title: ClassVar[str]
    description: ClassVar[str]
    usage: ClassVar[str]
    prefetch: ClassVar[dict[str, str]]
    reasons: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def cards(self, request: HookRequest) -> list[dict[str, Any]]:
        """The cards for a call; empty where there is nothing to say.

        Raises:
            RefusedError: 412 where data that is needed is missing.
        """

    def discovery(self) -> list[dict[str, Any]]:
        """Its entries of the discovery response."""
        same = {
            "id": self.id,
            "title": self.title,
            "description": self.description,
            "usageRequirements": self.usage,
            "prefetch": self.prefetch,
            "version": "2.0.1",
        }
        return [{"hook": hook, **same} for hook in self.hooks]


class ReadmissionService(HookService):
    """The risk of readmission, at discharge and when a record is opened."""

    id = "readmission"
    hooks = ("encounter-discharge", "patient-view")
    title = "Risk of readmission within 30 days"
    description = (
        "Reads the notes of a stay and gives the probability of an unplanned readmission within "
        "30 days, with the passages that raise it and a receipt of what was read."
    )
    usage = (
        "Needs the notes of the encounter as DocumentReferences with plain text, prefetched or "
        "from a FHIR server that this service may ask."
    )
    prefetch: ClassVar = {
        "encounter": "Encounter/{{context.encounterId}}",
        "notes": "DocumentReference?encounter={{context.encounterId}}",
    }
    reasons = tuple(REASONS)

    def __init__(self, service: Service, served: Served) -> None:
        self._service, self._served = service, served
        self._kept: dict[str, tuple[float, dict[str, Any]]] = {}
        self._lock = threading.Lock()
        service.get("/evidence/{card}", self._evidence, summary="Evidence of a card", open=False)

    def cards(self, request: HookRequest) -> list[dict[str, Any]]:
        """One card; none where a record is opened outside of a stay."""
        stay = request.context.encounterId
        if not stay:
            if request.hook == "encounter-discharge":
                raise RefusedError(400, "context.encounterId: required for encounter-discharge")
            return []
        documents = self._documents(request, stay)
        if not documents.records:
            why = "; ".join(f"{n} {why}" for why, n in documents.unread.items()) or "none was sent"
            raise RefusedError(412, f"prefetch.notes: no note of this stay can be read ({why})")
        records = self._service.check(documents.records)
        (row,) = self._service.score("readmission", records)
        if row["status"] != "ok":
            raise RefusedError(412, f"prefetch.notes: no risk, because {row['reason']}")
        # Passages count the notes in time order.
        timed = all(record["chart_time"] for record in records)
        documents.records = sorted(records, key=_time) if timed else records
        passages = self._service.score("passages", documents.records)
        name = new_card_name()
        source = self._source(name if self._service.settings.workers == 1 else "")
        card = risk_card(row, passages, documents, source, name=name)
        self._keep(name, {"records": documents.records, "risk": row, "passages": passages})
        self._service.ledger.served(self.id, self._served.fingerprint, [row], card=name)
        return [card]

    def _documents(self, request: HookRequest, stay: str) -> Any:
        """The notes of a call: prefetched, else from the client's FHIR server."""
        sent = request.prefetch or {}
        patient = request.context.patientId.rpartition("/")[2]
        stay = stay.rpartition("/")[2]
        for encounter in entries(sent.get("encounter")):
            check_patient(encounter.get("subject"), patient, "prefetch.encounter")
        resources = list(entries(sent.get("notes")))
        more = next_page(sent.get("notes"))
        faults = any(each.get("resourceType") == "OperationOutcome" for each in resources)
        if "notes" not in sent or more or faults:
            if not (request.fhirServer and request.fhirAuthorization):
                why = "has another page" if more else "is an error" if faults else "is missing"
                raise RefusedError(412, f"prefetch.notes {why}, and no FHIR server was named")
            resources += fetch_documents(
                request.fhirServer,
                request.fhirAuthorization.access_token,
                stay,
                hosts=self._service.settings.fhir,
                start=more,
            )
        return read_documents(resources, patient=patient, stay=stay)

    def _source(self, evidence: str) -> Source:
        settings, served = self._service.settings, self._served
        return Source(
            served.name,
            served.fingerprint,
            card=f"{settings.address}/v1/models/{served.name}/card",
            report=settings.report,
            page=f"{settings.address}/#card={evidence}" if evidence else "",
        )

    def _keep(self, name: str, evidence: dict[str, Any]) -> None:
        with self._lock:
            self._kept[name] = time.monotonic() + KEPT_SECONDS, evidence
            old = [each for each, (until, _) in self._kept.items() if until < time.monotonic()]
            for each in (*old, *list(self._kept)[:-KEPT]):
                self._kept.pop(each, None)

    async def _evidence(self, card: str) -> Answer:
        until, evidence = self._kept.get(card, (0.0, {}))
        if until < time.monotonic():
            minutes = int(KEPT_SECONDS / 60)
            raise RefusedError(404, f"this evidence is not here; it is kept for {minutes} minutes")
        return Answer(evidence)


def _time(record: dict[str, Any]) -> Any:
    from clinical.stays.stays import note_times

    return note_times([record["chart_time"]])[0]


def add_services(service: Service, offered: Sequence[HookService]) -> None:
    """Add discovery, the services and their feedback to the application."""
    service.errors["/cds-services"] = operation_outcome

    async def discover() -> Answer:
        return Answer({"services": [entry for each in offered for entry in each.discovery()]})

    service.get("/cds-services", discover, summary="CDS Hooks: discovery", open=False)
    for each in offered:
        path = f"/cds-services/{each.id}"
        body = HookRequest.model_json_schema()
        service.post(path, _answer(each), summary=f"CDS Hooks: {each.title}", body=body)
        body = FeedbackRequest.model_json_schema()
        service.post(
            f"{path}/feedback", _feedback(service, each), summary="CDS Hooks: feedback", body=body
        )


def _answer(offered: HookService) -> Any:
    def answer(body: dict[str, Any], http: Request) -> Answer:
        del http
        request = _read(HookRequest, body)
        if request.hook not in offered.hooks:
            raise RefusedError(400, f"hook: expected {' or '.join(offered.hooks)}")
        return Answer({"cards": offered.cards(request)})

    return answer


def _feedback(service: Service, offered: HookService) -> Any:
    def answer(body: dict[str, Any], http: Request) -> Answer:
        del http
        kept = []
        for entry in _read(FeedbackRequest, body).feedback:
            coded = entry.overrideReason.reason if entry.overrideReason else None
            reason = ""  # a comment is text: it is not kept
            if coded:
                ours = coded.system == SYSTEM and coded.code in offered.reasons
                reason = coded.code if ours else "other"
            kept.append((str(UUID(entry.card.removeprefix("urn:uuid:"))), entry.outcome, reason))
        service.ledger.feedback(offered.id, kept)
        return Answer({})

    return answer


def _read(kind: type[Any], body: dict[str, Any]) -> Any:
    """A message, or a `RefusedError` that names the field and not its value."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in problem["loc"])
        said = problem["msg"].removeprefix("Value error, ")
        raise RefusedError(400, f"{place}: {said}" if place else said) from None
