"""CDS Hooks 2.0.1: discovery, calls of a service with the notes of a stay, feedback."""

from __future__ import annotations

import json
import urllib.request
import uuid  # noqa: TC003  (pydantic reads it)
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException as WireError
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import quote, urljoin, urlsplit

from fastapi import Body
from pydantic import AwareDatetime, BaseModel, Field, model_validator
from starlette.exceptions import HTTPException

from clinical.cohort.attachments import address_id
from clinical.cohort.definition import load_schema
from clinical.cohort.documents import REASONS, left_out
from clinical.cohort.fhir import entries, read_resource, values_at
from domainbert.service.commands import LOOPBACK
from domainbert.service.http import AsciiResponse
from domainbert.tables import id_key

if TYPE_CHECKING:
    from domainbert.service.app import Service

# Records of notes; what the card says of documents, with their numbers.
Documents = tuple[list[dict[str, Any]], Counter[str]]
PAGES = 20  # of a search that are followed
_TIMEOUT, _LARGEST = 10.0, 32 << 20
_SCHEMA = load_schema("fhir")
_LEVELS = 30  # of encounters that are part of others
_HARMLESS = frozenset(("information", "warning", "success"))
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

    def cards(self, request: HookRequest) -> list[dict[str, object]]:
        """The cards for a call; an `HTTPException` 412 where data that is needed is missing."""
        raise NotImplementedError

    def answer(self, request: HookRequest) -> AsciiResponse:
        """The response to a call."""
        if request.hook not in self.hooks:
            raise HTTPException(400, f"hook: expected {' or '.join(self.hooks)}")
        return AsciiResponse({"cards": self.cards(request)})

    def keep(
        self, feedback: Annotated[list[_Feedback], Body(embed=True)]
    ) -> AsciiResponse:
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
        return AsciiResponse({})

    def documents(self, request: HookRequest, stay: str) -> Documents:
        """The notes of a stay, prefetched or from the FHIR server; see `read_documents`."""
        sent = request.prefetch or {}
        patient = address_id(request.context.patientId)
        encounters = [
            one | {"resourceType": "Encounter"}
            for one in entries(sent.get("encounter"))
            if one.get("resourceType") in (None, "Encounter")
        ]
        for encounter in encounters:
            _read(encounter, "Encounter", patient)
        resources = entries(sent.get("notes"))
        next_address = next_page(sent.get("notes"))
        fault = ""
        if "notes" not in sent:
            fault = "is missing"
        elif has_failed(resources):
            fault = "is an error"
        elif next_address:
            fault = "has another page"
        if fault:
            resources += self._fetch(request, stay, fault, start=next_address)
        return read_documents([*encounters, *resources], patient, stay)

    def _fetch(
        self, request: HookRequest, stay: str, fault: str, *, start: str
    ) -> list[dict[str, Any]]:
        """The documents of a stay from the client's FHIR server, because of a fault."""
        if not (request.fhirServer and request.fhirAuthorization):
            raise HTTPException(
                412, f"prefetch.notes {fault}, and no FHIR server was named"
            )
        resources = fetch_documents(
            request.fhirServer,
            request.fhirAuthorization.access_token,
            stay,
            hosts=self._service.settings.fhir or (),
            start=start,
        )
        if has_failed(resources):
            raise HTTPException(412, "the FHIR server answered with an error")
        return resources


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


def has_failed(resources: Iterable[dict[str, Any]]) -> bool:
    """Whether a server says that its answer is wrong; information and warnings are no error."""
    outcomes = [
        one for one in resources if one.get("resourceType") == "OperationOutcome"
    ]
    severities = [values_at(one, "issue.severity") or ["error"] for one in outcomes]
    return any(not _HARMLESS.issuperset(map(str, each)) for each in severities)


def read_documents(
    resources: Sequence[dict[str, Any]], patient: str, stay: str
) -> Documents:
    """The notes of a stay as records, and what the card says of other documents.

    Encounters among the resources tell which wards are part of the stay, and Binary resources
    have the contents of attachments that are links. Documents with one id get names of their own.
    """
    by_type: dict[str, list[dict[str, Any]]] = {}
    for resource in resources:
        by_type.setdefault(str(resource.get("resourceType")), []).append(resource)
    encounters = [
        _read(one, "Encounter", patient) for one in by_type.get("Encounter", [])
    ]
    parents = {str(row["id"]): row["part_of"] for row in encounters}
    admissions = [row["admit_time"] for row in encounters if row["admit_time"]]
    binaries = {str(one.get("id")): one for one in by_type.get("Binary", [])}
    rows = [
        _read(one, table.table, patient, binaries) | {"source": table.table}
        for table in _SCHEMA.notes
        for one in by_type.get(table.table, [])
    ]
    of_stay = [
        row for row in rows if _is_part(row["encounters"] or stay, stay, parents)
    ]
    receipt = Counter({"of another encounter, not read": len(rows) - len(of_stay)})
    reasons = left_out(of_stay)
    records: dict[str | None, dict[str, Any]] = {}
    for position, row in enumerate(of_stay):
        reason = REASONS.get(reasons.get(position, ""), "")
        if not reason and not row["text"]:
            reason = "without text that can be read here"
        if reason:
            receipt[f"{reason}, not read"] += 1
            continue
        for remark in filter(None, (row["remark"] or "").split("; ")):
            receipt[f"read with a remark ({remark})"] += 1
        name = row["id"] or f"document-{position}"
        while id_key(name) in records:
            name += "*"
        records[id_key(name)] = {
            "patient_id": patient,
            "stay_id": stay,
            "note_id": name,
            "admit_time": next(iter(admissions), None),
            "category": _category(row),
            "chart_time": row["chart_time"] or "",
            "text": row["text"],
        }
    return list(records.values()), receipt


def _is_part(encounters: str, stay: str, parents: Mapping[str, str | None]) -> bool:
    """Whether one of these encounters is the stay, or part of the same encounter as the stay."""

    def top(encounter: str) -> str:
        for _ in range(_LEVELS):
            encounter = parents.get(encounter) or encounter
        return encounter

    return any(top(encounter) == top(stay) for encounter in encounters.split())


def _category(row: Mapping[str, str | None]) -> str:
    summaries = set(_SCHEMA.views["DocumentReference"].values["summary"].split())
    if not summaries.isdisjoint((row["codes"] or "").split()):
        return "Discharge summary"
    return row["category"] or "Note"


def _read(
    resource: dict[str, Any],
    kind: str,
    patient: str,
    binaries: Mapping[str, object] | None = None,
) -> dict[str, str | None]:
    """The row of a resource; data of another patient than the call is about are refused."""
    fields = _SCHEMA.files[kind].fields
    row = read_resource(resource | {"resourceType": kind}, fields, binaries)
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
