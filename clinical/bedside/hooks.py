"""CDS Hooks 2.0.1: calls and feedback, and the notes of a stay, sent or fetched."""

from __future__ import annotations

import asyncio
import uuid  # noqa: TC003  (pydantic reads it)
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, cast
from urllib.parse import quote, urljoin

import httpx
from anyio import from_thread
from pydantic import AwareDatetime, BaseModel, Field, model_validator
from starlette.exceptions import HTTPException

from clinical.cohort.definition import load_schema
from clinical.cohort.fhir.files import entries
from clinical.cohort.fhir.resources import read_resource
from clinical.cohort.fhir.schema import NOTES, Codes
from clinical.cohort.fhir.values import values
from clinical.cohort.source import REASONS, left_out, no_risk
from domainbert.errors import UserError
from domainbert.files import JsonObject
from domainbert.service.commands import LOOPBACK
from domainbert.service.http import (
    fetch_json,
    http_client,
    seconds_left,
)

Origin = tuple[str, str, int | None]
"""Scheme, host and port of a server; no port for that of the scheme."""
Hook = Literal["encounter-discharge", "patient-view"]
Resource = JsonObject
Row = Mapping[str, str | None]
Documents = tuple[list[JsonObject], Counter[str]]
"""Records of notes, and how many documents were not read or have a remark, by the reason."""

PAGES = 20  # of a search that are followed
_LARGEST = 32 << 20  # bytes of a page, and characters of all notes
_FHIR_CODES = cast("Codes", load_schema("fhir").codes)
_LEVELS = 30  # of encounters that are part of others
_HARMLESS = frozenset(("information", "warning", "success"))
_CODES = {
    400: "invalid",
    401: "login",
    404: "not-found",
    412: "required",
    413: "too-long",
}


class NoRiskError(Exception):
    """A stay that no cohort would follow up, such as one that ended in death; see `no_risk`."""


class _Authorization(BaseModel):
    access_token: str = Field(min_length=1)
    token_type: Literal["Bearer"]


class _Context(BaseModel):
    patientId: str = Field(min_length=1)  # noqa: N815
    encounterId: str | None = None  # noqa: N815


class HookRequest(BaseModel):
    """The call of a service. The standard names the fields, and clients may add more."""

    hook: Hook
    hookInstance: uuid.UUID  # noqa: N815
    fhirServer: str | None = None  # noqa: N815
    fhirAuthorization: _Authorization | None = None  # noqa: N815
    context: _Context
    prefetch: JsonObject | None = None

    @model_validator(mode="after")
    def _invariants(self) -> HookRequest:
        if self.fhirAuthorization and not self.fhirServer:  # cds-r-1
            raise ValueError(
                "fhirServer: required where there is fhirAuthorization"
            )
        return self


class Feedback(BaseModel):
    """What became of a card."""

    card: uuid.UUID
    outcome: Literal["accepted", "overridden"]  # cds-fb-1
    acceptedSuggestions: list[JsonObject] | None = Field(  # noqa: N815
        None, fail_fast=True
    )
    overrideReason: JsonObject | None = None  # noqa: N815
    outcomeTimestamp: AwareDatetime  # noqa: N815

    @model_validator(mode="after")
    def _invariants(self) -> Feedback:
        """Check what CDS Hooks requires of several fields together."""
        # cds-fb-2
        if self.outcome == "accepted" and not self.acceptedSuggestions:
            raise ValueError(
                "acceptedSuggestions: required where the outcome is accepted"
            )
        override = self.overrideReason
        if (
            override is None
            or override.get("reason")
            or override.get("userComment")
        ):
            return self
        raise ValueError(  # cds-fb-3
            "overrideReason: expected a reason, a userComment, or both"
        )


def operation_outcome(status: int, why: str) -> JsonObject:
    """An OperationOutcome with one error."""
    default = "exception" if status >= 500 else "processing"
    code = _CODES.get(status, default)
    issue = {"severity": "error", "code": code, "diagnostics": why}
    return {"resourceType": "OperationOutcome", "issue": [issue]}


def has_failed(resources: Iterable[Resource]) -> bool:
    """Whether a server reports an error; information and warnings are not errors."""
    for resource in resources:
        if resource.get("resourceType") == "OperationOutcome":
            severities = values(resource, "issue", "severity") or ["error"]
            if not _HARMLESS.issuperset(map(str, severities)):
                return True
    return False


def read_documents(
    resources: Sequence[Resource], patient: str, stay: str
) -> Documents:
    """The notes of a stay as records, and the numbers of documents that were not read.

    Encounters among the resources tell which wards are part of the stay, and Binary resources
    have the contents of attachments that are links. A `note_id` is the position of a document,
    since documents may share an id.

    Raises:
        NoRiskError: the encounter of the stay tells that nobody can return after it.
    """
    by_type: defaultdict[str, list[Resource]] = defaultdict(list)
    for resource in resources:
        by_type[str(resource.get("resourceType"))].append(resource)
    encounters = [
        resource_row(encounter, "Encounter", patient)
        for encounter in by_type["Encounter"]
    ]
    rows = _note_rows(by_type, patient)
    by_id = {str(row["id"]): row for row in encounters}
    times = by_id.get(stay, {})
    reason, remark = no_risk(times)
    if reason:
        raise NoRiskError
    tops = _tops(stay, by_id)
    of_stay = [
        row for row in rows if tops & _tops(row["encounters"] or stay, by_id)
    ]
    n_other = len(rows) - len(of_stay)
    receipt = Counter({"of another encounter, not read": n_other})
    receipt[remark] = len(of_stay) * bool(remark)
    of_every_note = {
        "patient_id": patient,
        "stay_id": stay,
        "admit_time": times.get("admit_time"),
        "discharge_time": times.get("discharge_time"),
    }
    records = [
        of_every_note | record for record in _note_records(of_stay, receipt)
    ]
    return records, receipt


def _note_rows(
    by_type: defaultdict[str, list[Resource]], patient: str
) -> list[dict[str, str | None]]:
    """The rows of all notes, with the type of resource that each is from as `source`.

    Raises:
        HTTPException: 413, the notes are too long; see also `resource_row`.
    """
    binaries = {str(binary.get("id")): binary for binary in by_type["Binary"]}
    rows = []
    n_characters = 0
    for resource_type in NOTES:
        for note in by_type[resource_type]:
            seconds_left()
            row = resource_row(note, resource_type, patient, binaries)
            rows.append(row | {"source": resource_type})
            # Any number of documents may have one long Binary.
            n_characters += len(row["text"] or "")
            if n_characters > _LARGEST:
                raise HTTPException(
                    413, f"the notes have more than {_LARGEST:,} characters"
                )
    return rows


def _note_records(
    rows: Sequence[Row], receipt: Counter[str]
) -> list[dict[str, str | None]]:
    """The notes that are read; `receipt` counts the others, and remarks, by the reason."""
    records = []
    reasons = left_out(rows)
    for position, row in enumerate(rows):
        reason = REASONS.get(reasons.get(position, ""), "")
        if not reason and not row["text"]:
            remarks = row["remark"] or "without text that can be read here"
            reason = remarks.replace(", not read", "")
        if reason:
            receipt[f"{reason}, not read"] += 1
            continue
        for remark_text in filter(None, (row["remark"] or "").split("; ")):
            receipt[f"read with a remark ({remark_text})"] += 1
        record = {
            "note_id": f"document-{position}",
            "category": row["category"] or "Note",
            "chart_time": row["chart_time"] or "",
            "text": row["text"],
        }
        records.append(record)
    return records


def _tops(encounters: str, by_id: Mapping[str, Row]) -> set[str]:
    """The outermost encounters that these are part of; encounters may form a circle."""
    tops = set(encounters.split())
    for _ in range(_LEVELS):
        tops = {by_id.get(top, {}).get("part_of") or top for top in tops}
    return tops


def resource_row(
    resource: Resource,
    resource_type: str,
    patient: str,
    binaries: Mapping[str, object] | None = None,
) -> dict[str, str | None]:
    """The row of a resource of a type.

    Raises:
        HTTPException: 400, the resource is of another patient than the call is about.
    """
    typed = resource | {"resourceType": resource_type}
    row = read_resource(typed, _FHIR_CODES, binaries)
    if row["patient_id"] not in (None, patient):
        raise HTTPException(
            400,
            f"a {resource_type} is not of the patient in context.patientId",
        )
    return row


def missing_count(bundle: object) -> int:
    """How many matches a search has, by its `total`, beyond those in its Bundle."""
    totals = values(bundle, "total")
    matches = [
        entry
        for entry in values(bundle, "entry")
        if values(entry, "search", "mode") in ([], ["match"])
    ]
    total = 0
    if totals and isinstance(totals[0], int):
        total = totals[0]
    return max(total - len(matches), 0)


def next_page(bundle: object) -> str:
    """The address of the next page of a search, or ""."""
    for link in values(bundle, "link"):
        if values(link, "relation") == ["next"]:
            for url in values(link, "url"):
                if isinstance(url, str):
                    return url
    return ""


def fetch_documents(
    server: str,
    token: str,
    stay: str,
    *,
    servers: Collection[Origin],
    proxy: str,
    start: str,
) -> list[Resource]:
    """The DocumentReferences of a stay from the client's FHIR server, in a call's time.

    Only `servers` (see `origin`) are asked, by https or on this machine, and only through this
    proxy; `start` is the first page to ask for, if it is known. It runs in a thread of the service.

    Raises:
        HTTPException: 412, the server may not be asked, did not answer, or has too many pages.
        TimeoutError: the time limit of the call has passed.
    """
    url = (
        start
        or f"DocumentReference?encounter={quote(stay, safe='')}&_count=100"
    )
    seconds = seconds_left()

    async def read() -> list[Resource]:
        async with asyncio.timeout(seconds), http_client(proxy=proxy) as http:
            return await _read_pages(http, server, url, token, servers)

    try:
        resources = from_thread.run(read)
    except (
        httpx.HTTPError,
        httpx.InvalidURL,
        ValueError,
        RecursionError,
    ) as error:
        cause = type(error).__name__
        if str(error).isdecimal():
            cause = str(error)  # the status
        raise HTTPException(
            412, f"the FHIR server gave no notes ({cause})"
        ) from None
    if has_failed(resources):
        raise HTTPException(412, "the FHIR server answered with an error")
    return resources


async def _read_pages(
    client: httpx.AsyncClient,
    server: str,
    url: str,
    token: str,
    servers: Collection[Origin],
) -> list[Resource]:
    """The resources of all pages of a search, from this address on."""
    resources = []
    for _ in range(PAGES):
        url = urljoin(server.rstrip("/") + "/", url)
        # A user name in the address, as the client parses it, would replace the token.
        if httpx.URL(url).userinfo or origin(url) not in servers:
            raise HTTPException(
                412,
                "notes are missing, and this FHIR server may not be asked",
            )
        bundle = await fetch_json(
            client,
            url,
            max_bytes=_LARGEST,
            authorization=f"Bearer {token}",
            accept="application/fhir+json",
        )
        resources += entries(bundle)
        url = next_page(bundle)
        if not url:
            return resources
    raise HTTPException(
        412, f"the notes of this stay fill more than {PAGES} pages"
    )


def origins(names: Iterable[str]) -> set[Origin]:
    """The servers of `--fhir`. An address that cannot be read is a `UserError`."""
    servers = set()
    for name in names:
        try:
            servers.add(origin(name))
        except (ValueError, httpx.InvalidURL):
            raise UserError(
                f"--fhir {name}: expected HOST, HOST:PORT, or https://HOST:PORT; http only for "
                "this machine"
            ) from None
    return servers


def origin(name: str) -> Origin:
    """Scheme, host and port of an address, or of `HOST` or `HOST:PORT`, which mean https.

    Raises:
        ValueError: neither https nor http on this machine.
    """
    address = httpx.URL(name if "://" in name else f"https://{name}")
    if address.scheme != "https" and address.host not in LOOPBACK:
        raise ValueError("no https")
    if not address.host:
        raise ValueError("no host")
    return address.scheme, address.host, address.port
