"""CDS Hooks 2.0.1: discovery, calls of a service with the notes of a stay, feedback."""

from __future__ import annotations

import json
import urllib.request
import uuid  # noqa: TC003  (pydantic reads it)
from collections import Counter
from collections.abc import Iterable, Sequence
from http.client import HTTPException as WireError
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import quote, urljoin, urlsplit

from fastapi import Body
from pydantic import AwareDatetime, BaseModel, Field, model_validator
from starlette.exceptions import HTTPException

from clinical.cohort.definition import load_schema
from clinical.cohort.fhir import entries, read_resource, values_at
from domainbert.service.commands import LOOPBACK
from domainbert.service.http import Answer

if TYPE_CHECKING:
    from domainbert.service.app import Service

Documents = tuple[
    list[dict[str, Any]], Counter[str]
]  # records; how many are left out, and why
PAGES = 20  # of a search that are followed
_TIMEOUT, _LARGEST = 10.0, 32 << 20
_SCHEMA = load_schema("fhir")
_CODES = {
    400: "invalid",
    401: "login",
    404: "not-found",
    412: "required",
    413: "too-long",
}


class _Authorization(BaseModel):
    access_token: str = Field(min_length=1)
    token_type: Literal["Bearer"]


class _Context(BaseModel):
    patientId: str = Field(min_length=1)  # noqa: N815
    encounterId: str | None = None  # noqa: N815


class HookRequest(BaseModel):
    """The call of a service; the standard names the fields, and clients may add others."""

    hook: str
    hookInstance: uuid.UUID  # noqa: N815
    fhirServer: str | None = None  # noqa: N815
    fhirAuthorization: _Authorization | None = None  # noqa: N815
    context: _Context
    prefetch: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _invariants(self) -> HookRequest:
        if self.fhirAuthorization and not self.fhirServer:  # cds-r-1
            raise ValueError("fhirServer: required where there is fhirAuthorization")
        return self


class _Feedback(BaseModel):
    card: uuid.UUID
    outcome: Literal["accepted", "overridden"]  # cds-fb-1
    acceptedSuggestions: list[dict[str, Any]] | None = None  # noqa: N815
    overrideReason: dict[str, Any] | None = None  # noqa: N815
    outcomeTimestamp: AwareDatetime  # noqa: N815

    @model_validator(mode="after")
    def _invariants(self) -> _Feedback:
        if self.outcome == "accepted" and not self.acceptedSuggestions:  # cds-fb-2
            raise ValueError(
                "acceptedSuggestions: required where the outcome is accepted"
            )
        given = self.overrideReason
        if given is not None and not (
            given.get("reason") or given.get("userComment")
        ):  # cds-fb-3
            raise ValueError(
                "overrideReason: expected a reason, a userComment, or both"
            )
        return self


class HookService:
    """One CDS service: what discovery says of it, and how it answers."""

    id: ClassVar[str]  # last part of its address
    hooks: ClassVar[tuple[str, ...]]  # each is one entry of discovery
    about: dict[str, Any]  # title, description, usageRequirements, prefetch
    reasons: ClassVar[list[dict[str, str]]] = []  # for overriding its cards: Codings

    def __init__(self, service: Service) -> None:
        self._service = service

    def cards(self, request: HookRequest) -> list[dict[str, Any]]:
        """The cards for a call; an `HTTPException` 412 where data that is needed is missing."""
        raise NotImplementedError

    def answer(self, request: HookRequest) -> Answer:
        """The response to a call."""
        if request.hook not in self.hooks:
            raise HTTPException(400, f"hook: expected {' or '.join(self.hooks)}")
        return Answer({"cards": self.cards(request)})

    def keep(self, feedback: Annotated[list[_Feedback], Body(embed=True)]) -> Answer:
        """Keep feedback without text: no comments, no codes of others."""
        for entry in feedback:
            given = (entry.overrideReason or {}).get("reason")
            place = [values_at(given, name) for name in ("system", "code")]
            codes = [
                r["code"] for r in self.reasons if place == [[r["system"]], [r["code"]]]
            ]
            reason = codes[0] if codes else "other" if given else ""
            self._service.ledger.feedback(
                self.id, str(entry.card), entry.outcome, reason
            )
        return Answer({})

    def documents(self, request: HookRequest, stay: str) -> Documents:
        """The notes of a stay, prefetched or from the FHIR server; see `read_documents`."""
        sent, patient = (
            request.prefetch or {},
            request.context.patientId.rpartition("/")[2],
        )
        encounters = [
            _read(each, "Encounter", patient) for each in entries(sent.get("encounter"))
        ]
        admitted = next(
            (each["admit_time"] for each in encounters if each["admit_time"]), None
        )
        resources, more = entries(sent.get("notes")), next_page(sent.get("notes"))
        fault = (
            "is missing" if "notes" not in sent else "has another page" if more else ""
        )
        if any(each.get("resourceType") == "OperationOutcome" for each in resources):
            fault = "is an error"
        if fault:
            if not (request.fhirServer and request.fhirAuthorization):
                raise HTTPException(
                    412, f"prefetch.notes {fault}, and no FHIR server was named"
                )
            token, hosts = (
                request.fhirAuthorization.access_token,
                self._service.settings.fhir or (),
            )
            resources += fetch_documents(
                request.fhirServer, token, stay, hosts=hosts, start=more
            )
        return read_documents(resources, patient, stay, admitted)


def add_services(service: Service, offered: Sequence[HookService]) -> None:
    """Add discovery, the services and their feedback to the application."""
    service.errors["/cds-services"] = operation_outcome
    of = [(each, hook) for each in offered for hook in each.hooks]
    found = [
        {"hook": hook, "id": s.id, **s.about, "version": "2.0.1"} for s, hook in of
    ]
    service.app.get("/cds-services", summary="CDS Hooks: discovery")(
        lambda: {"services": found}
    )
    for each in offered:
        path, summary = f"/cds-services/{each.id}", f"CDS Hooks: {each.about['title']}"
        service.app.post(path, summary=summary)(each.answer)
        service.app.post(f"{path}/feedback", summary=f"{summary}: feedback")(each.keep)


def operation_outcome(status: int, why: str) -> dict[str, Any]:
    """An OperationOutcome with one error."""
    code = _CODES.get(status, "exception" if status >= 500 else "processing")
    issue = {"severity": "error", "code": code, "diagnostics": why}
    return {"resourceType": "OperationOutcome", "issue": [issue]}


def read_documents(
    resources: Iterable[dict[str, Any]],
    patient: str,
    stay: str,
    admitted: str | None = None,
) -> Documents:
    """The notes of a stay as records, and how many documents were left out for which reason."""
    summaries = set(_SCHEMA.views["DocumentReference"].values["summary"].split())
    found, unread = [], Counter[str]()
    for number, document in enumerate(resources):
        if document.get("resourceType") != "DocumentReference":
            continue
        row = _read(document, "DocumentReference", patient)
        name, codes = row["id"] or f"document-{number}", (row["codes"] or "").split()
        why = "" if row["text"] else "without text that can be read here"
        if row["error"] == "1":
            why = "entered in error"
        elif stay not in (row["encounters"] or stay).split():
            why = "of another encounter"
        if why:
            unread[why] += 1
            continue
        category = row["category"] or "Note"
        ids = {
            "patient_id": patient,
            "stay_id": stay,
            "note_id": name,
            "admit_time": admitted,
        }
        ids["category"] = (
            category if summaries.isdisjoint(codes) else "Discharge summary"
        )
        found.append(ids | {"chart_time": row["chart_time"] or "", "text": row["text"]})
    return found, unread


def _read(resource: dict[str, Any], kind: str, patient: str) -> dict[str, str | None]:
    """The row of a resource; data of another patient than the call is about are refused."""
    row = read_resource(resource | {"resourceType": kind}, _SCHEMA.files[kind].fields)
    if row["patient_id"] not in (None, patient):
        raise HTTPException(400, f"a {kind} is not of the patient in context.patientId")
    return row


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token to another host."""

    redirect_request = staticmethod(lambda *_: None)  # type: ignore[assignment]


def next_page(bundle: Any) -> str:
    """The address of the next page of a search, or ""."""
    links = [
        each
        for each in values_at(bundle, "link")
        if values_at(each, "relation") == ["next"]
    ]
    return next(
        (u for each in links for u in values_at(each, "url") if isinstance(u, str)), ""
    )


def fetch_documents(
    server: str, token: str, stay: str, *, hosts: Sequence[str], start: str = ""
) -> list[dict[str, Any]]:
    """The DocumentReferences of a stay from the client's FHIR server; else an `HTTPException` 412.

    Only `hosts` are asked, by https or on this machine; `start` is the first page to ask for.
    """
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/fhir+json"}
    opener, found = urllib.request.build_opener(_NoRedirect), []
    url = start or f"DocumentReference?encounter={quote(stay, safe='')}&_count=100"
    try:
        for _ in range(PAGES):
            url = urljoin(server.rstrip("/") + "/", url)
            host, scheme = urlsplit(url).hostname, urlsplit(url).scheme
            secure = scheme == "https" or (scheme == "http" and host in LOOPBACK)
            if host not in hosts or not secure:
                raise HTTPException(
                    412, "notes are missing, and this FHIR server may not be asked"
                )
            request = urllib.request.Request(url, headers=headers)  # noqa: S310  (checked above)
            with opener.open(request, timeout=_TIMEOUT) as answer:
                bundle = json.loads(answer.read(_LARGEST))
            found += entries(bundle)
            if not (url := next_page(bundle)):
                return found
    except (OSError, ValueError, RecursionError, WireError) as error:
        kind = getattr(error, "code", type(error).__name__)
        raise HTTPException(412, f"the FHIR server gave no notes ({kind})") from None
    raise HTTPException(412, f"the notes of this stay fill more than {PAGES} pages")
