"""FHIR R4: notes from DocumentReferences, asked for or sent, RiskAssessment, OperationOutcome."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import re
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import domainbert
from domainbert.service.app import now
from domainbert.service.http import RefusedError

PAGES = 20  # of a search that are followed
_TIMEOUT, _LARGEST = 10.0, 32 << 20
_ID = re.compile(r"[A-Za-z0-9\-.]{1,64}\Z")
_CODES = {400: "invalid", 401: "login", 404: "not-found", 408: "timeout", 412: "required"}
_CODES |= {413: "too-long", 415: "not-supported", 422: "processing", 429: "throttled"}
_CODES |= {503: "timeout"}

RISK = "Unplanned readmission within 30 days of discharge"


def operation_outcome(status: int, why: str) -> dict[str, Any]:
    """An OperationOutcome with one error."""
    code = _CODES.get(status, "exception" if status >= 500 else "invalid")
    issue = {"severity": "error", "code": code, "diagnostics": why}
    return {"resourceType": "OperationOutcome", "issue": [issue]}


# --- notes


@dataclass
class Documents:
    """The notes of a stay.

    Attributes:
        records: one a note, for the scoring tasks.
        kinds: note id -> type of the note, for people.
        dates: note id -> when it was written.
        unread: why documents were left out, counted.
    """

    records: list[dict[str, Any]] = field(default_factory=list, repr=False)
    kinds: dict[str, str] = field(default_factory=dict, repr=False)
    dates: dict[str, str] = field(default_factory=dict, repr=False)
    unread: Counter[str] = field(default_factory=Counter)


def entries(value: Any) -> Iterator[dict[str, Any]]:
    """The resources of a Bundle, or the one resource."""
    if not isinstance(value, dict):
        return
    if value.get("resourceType") != "Bundle":
        yield value
        return
    for entry in _dicts(value.get("entry")):
        if isinstance(resource := entry.get("resource"), dict):
            yield resource


def read_documents(resources: Iterable[Mapping[str, Any]], *, patient: str, stay: str) -> Documents:
    """The notes among resources: the text of every current DocumentReference of the stay.

    Raises:
        RefusedError: 400, a document is another patient's.
    """
    found = Documents()
    for number, document in enumerate(resources):
        if document.get("resourceType") != "DocumentReference":
            continue
        check_patient(document.get("subject"), patient, "a DocumentReference")
        of = [_id_of(each) for each in _dicts(_get(document, "context", "encounter"))]
        if document.get("status") == "entered-in-error" or (
            document.get("docStatus") == "entered-in-error"
        ):
            found.unread["entered in error"] += 1
        elif stay and of and stay not in of:
            found.unread["of another encounter"] += 1
        elif isinstance(text := _text(document), str):
            name = _str(document.get("id")) or f"document-{number}"
            if name in found.kinds:
                found.unread["sent twice"] += 1
                continue
            date = _str(document.get("date"))
            found.kinds[name], found.dates[name] = _kind(document), date[:10]
            record = {"patient_id": patient, "stay_id": stay or "stay", "note_id": name}
            found.records.append({**record, "chart_time": date or None, "text": text})
        else:
            found.unread[text[0]] += 1
    return found


def _text(document: Mapping[str, Any]) -> str | tuple[str]:
    """The text of the first attachment that has one; else why there is none, in a tuple."""
    why = "without an attachment"
    for content in _dicts(document.get("content")):
        attachment = content.get("attachment")
        if not isinstance(attachment, dict):
            continue
        kind = _str(attachment.get("contentType")).lower() or "text/plain"
        if not kind.startswith("text/plain"):
            why = "not plain text"
            continue
        data = attachment.get("data")
        if not isinstance(data, str):
            why = "whose text is elsewhere"
            continue
        charset = kind.partition("charset=")[2].strip(' "') or "utf-8"
        try:
            return base64.b64decode(data, validate=True).decode(charset)
        except (binascii.Error, LookupError, ValueError):
            why = "that cannot be decoded"
    return (why,)


def _kind(document: Mapping[str, Any]) -> str:
    coded = document.get("type")
    codings = _dicts(coded.get("coding")) if isinstance(coded, dict) else []
    names = [_str(_get(document, "type", "text")), *(_str(c.get("display")) for c in codings)]
    return next(filter(None, names), "note")


def check_patient(subject: Any, patient: str, what: str) -> None:
    """Refuse data of another patient than the request is about."""
    name = _id_of(subject) if isinstance(subject, dict) else ""
    if name and name != patient:
        raise RefusedError(400, f"{what} is not of the patient in context.patientId")


def _id_of(reference: Mapping[str, Any]) -> str:
    return _str(reference.get("reference")).split("/_history")[0].rpartition("/")[2]


def _get(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# --- the one outgoing call


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token to another host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Never."""


def next_page(bundle: Any) -> str:
    """The address of the next page of a search, or ""."""
    links = _dicts(_get(bundle, "link"))
    return next((_str(link.get("url")) for link in links if link.get("relation") == "next"), "")


def fetch_documents(
    server: str, token: str, stay: str, *, hosts: Sequence[str], start: str = ""
) -> list[dict[str, Any]]:
    """The DocumentReferences of a stay from the client's FHIR server.

    Args:
        server: its base address.
        token: the client's access token.
        stay: id of the Encounter.
        hosts: that may be asked.
        start: address of the first page, where the client sent those before it.

    Raises:
        RefusedError: 412, it may not be asked, or does not answer.
    """
    base = server.rstrip("/") + "/"
    url = start or f"{base}DocumentReference?encounter={quote(stay, safe='')}&_count=100"
    found: list[dict[str, Any]] = []
    for _ in range(PAGES):
        bundle = _fetch(urljoin(base, url), token, hosts)
        found += entries(bundle)
        if not (url := next_page(bundle)):
            return found
    raise RefusedError(412, f"the notes of this stay fill more than {PAGES} pages")


def _fetch(url: str, token: str, hosts: Sequence[str]) -> Any:
    parts = urlsplit(url)
    if parts.hostname not in hosts:
        raise RefusedError(412, "the notes are missing, and this FHIR server may not be asked")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname)):
        raise RefusedError(412, "the notes are missing, and fhirServer is not https")
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/fhir+json"}
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310  (checked above)
        with opener.open(request, timeout=_TIMEOUT) as answer:
            raw = answer.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise RefusedError(412, f"a page of notes has more than {_LARGEST:,} bytes")
        return json.loads(raw)
    except urllib.error.HTTPError as error:
        raise RefusedError(412, f"the FHIR server answered {error.code}") from None
    except (OSError, ValueError, RecursionError) as error:
        kind = type(error).__name__
        raise RefusedError(412, f"the FHIR server gave no notes ({kind})") from None


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


# --- RiskAssessment


def risk_assessments(name: str, fingerprint: str) -> Callable[..., dict[str, Any]]:
    """Makes `?format=fhir`: one RiskAssessment, or for several stays a Bundle of them."""
    model = f"{name} {fingerprint[:12]}, domainbert {domainbert.__version__}"

    def make(records: Sequence[Mapping[str, Any]], score: Callable[..., Any]) -> dict[str, Any]:
        rows = score("readmission", records)
        passages = score("passages", records)
        made = [_resource(row, records, passages, model) for row in rows]
        if len(made) == 1:
            if made[0]["resourceType"] == "OperationOutcome":
                raise RefusedError(422, made[0]["issue"][0]["diagnostics"])
            return made[0]
        return {
            "resourceType": "Bundle",
            "type": "collection",
            "entry": [{"resource": resource} for resource in made],
        }

    return make


def _resource(
    row: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    passages: Sequence[Mapping[str, Any]],
    model: str,
) -> dict[str, Any]:
    """The RiskAssessment of a row of risks.

    `probabilityDecimal` is a percentage, 0 to 100: R4 says that decimals are expressed as
    percentages (ras-2 has 100 as their maximum).
    """
    if row["status"] != "ok":
        return operation_outcome(422, f"no risk: {row['reason']}")
    stay, patient = row.get("stay_id"), row.get("patient_id")
    if not stay or not patient:
        return operation_outcome(422, "a RiskAssessment needs patient_id and stay_id")
    notes = [r["note_id"] for r in records if str(r.get("stay_id")) == stay and r.get("note_id")]
    raising = [p for p in passages if p.get("stay_id") == stay and p.get("direction") == "raises"]
    said = [f"“{' '.join(p['text'].split())}”" for p in raising]
    prediction = {
        "outcome": {"text": RISK},
        "probabilityDecimal": round(100 * row["probability"], 4),
        "rationale": "Passages that raise the risk: " + "; ".join(said)
        if said
        else "No passage raises the risk.",
    }
    return {
        "resourceType": "RiskAssessment",
        "status": "final",
        "method": {"text": model},
        "subject": _reference("Patient", patient),
        "encounter": _reference("Encounter", stay),
        "occurrenceDateTime": now(),
        "basis": [_reference("DocumentReference", note) for note in notes],
        "prediction": [prediction],
        "note": [{"text": receipt(row)}],
    } | ({} if notes else {"basis": [_reference("Encounter", stay)]})


def _reference(kind: str, name: Any) -> dict[str, Any]:
    """A reference to a resource; by identifier where the id is none of FHIR's."""
    text = str(name)
    if _ID.match(text):
        return {"reference": f"{kind}/{text}"}
    return {"type": kind, "identifier": {"value": text}}


def receipt(
    row: Mapping[str, Any], notes: int | None = None, unread: Mapping[str, int] | None = None
) -> str:
    """What was read of a stay, in words."""
    of = f" of {notes} note{'s' * (notes != 1)}" if notes is not None else ""
    said = [f"All {row['n_tokens']:,} tokens{of} were read."]
    if row.get("reason"):
        said = [f"{row['n_tokens']:,} tokens{of} were read; {row['reason']}."]
    for why, count in (unread or {}).items():
        said.append(f"{count} document{'s' * (count != 1)} {why} not read.")
    if not row["calibrated"]:
        said.append("The model has no calibrator: this is its score, not a calibrated chance.")
    return " ".join(said)
