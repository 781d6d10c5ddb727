"""FHIR R4: notes from DocumentReferences, asked for or sent, RiskAssessment, OperationOutcome."""

from __future__ import annotations

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException as WireError
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from starlette.exceptions import HTTPException

import domainbert
from clinical.cohort.fhir import attachment_text
from domainbert.service.http import LOOPBACK, Answer
from domainbert.service.ledger import now

Row = Mapping[str, Any]
PAGES = 20  # of a search that are followed
_TIMEOUT, _LARGEST = 10.0, 32 << 20
_ID = re.compile(r"\A[A-Za-z0-9\-.]{1,64}\Z")
_CODES = {400: "invalid", 401: "login", 404: "not-found", 412: "required", 413: "too-long"}
SUMMARY = "18842-5"  # of LOINC: discharge summary
RISK = "Unplanned readmission within 30 days of discharge"


def operation_outcome(status: int, why: str) -> dict[str, Any]:
    """An OperationOutcome with one error."""
    code = _CODES.get(status, "exception" if status >= 500 else "processing")
    issue = {"severity": "error", "code": code, "diagnostics": why}
    return {"resourceType": "OperationOutcome", "issue": [issue]}


# --- notes


@dataclass
class Documents:
    """The notes of a stay as records, what each is by its id, and why others were left out."""

    records: list[dict[str, Any]] = field(default_factory=list, repr=False)
    about: dict[str, str] = field(default_factory=dict, repr=False)
    unread: Counter[str] = field(default_factory=Counter)


def dicts(value: Any, *path: str) -> list[dict[str, Any]]:
    """The objects in a list, at a path inside objects; none where JSON has another form."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def entries(value: Any) -> list[dict[str, Any]]:
    """The resources of a Bundle, or the one resource."""
    if not isinstance(value, dict) or value.get("resourceType") != "Bundle":
        return dicts([value])
    return dicts([entry.get("resource") for entry in dicts(value, "entry")])


def read_documents(
    resources: Iterable[Row], patient: str, stay: str, admitted: str | None = None
) -> Documents:
    """The notes of a stay: the plain text of its DocumentReferences that are no errors."""
    found = Documents()
    for number, document in enumerate(resources):
        if document.get("resourceType") != "DocumentReference":
            continue
        check_patient(document, patient)
        name = _text(document.get("id")).strip() or f"document-{number}"
        stays = {_id_of(each) for each in dicts(document, "context", "encounter")}
        text = _note(document)
        why = "" if text else "without text that can be read here"
        if "entered-in-error" in (document.get("status"), document.get("docStatus")):
            why = "entered in error"
        elif stays and stay not in stays:
            why = "of another encounter"
        elif name in found.about:
            why = "sent twice"
        if why:
            found.unread[why] += 1
            continue
        date, kind = _text(document.get("date")), document.get("type")
        coded = dicts(kind, "coding")
        names = [each.get("text") or each.get("display") for each in (*dicts([kind]), *coded)]
        category = next(filter(None, map(_text, names)), "Note")
        if any(each.get("code") == SUMMARY for each in coded):
            category = "Discharge summary"
        found.about[name] = ", ".join(filter(None, (category, date[:10])))
        ids = {"patient_id": patient, "stay_id": stay, "note_id": name, "category": category}
        found.records.append({**ids, "chart_time": date, "admit_time": admitted, "text": text})
    return found


def _note(document: Row) -> str:
    try:
        return attachment_text(json.dumps(document.get("content"))) or ""
    except (AttributeError, TypeError):  # another form of JSON
        return ""


def check_patient(resource: Row, patient: str) -> None:
    """Refuse data of another patient than the request is about."""
    subject = resource.get("subject")
    if isinstance(subject, dict) and _id_of(subject) not in ("", patient):
        kind = resource.get("resourceType", "resource")
        raise HTTPException(400, f"a {kind} is not of the patient in context.patientId")


def _id_of(reference: Row) -> str:
    return _text(reference.get("reference")).split("/_history")[0].rpartition("/")[2]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# --- the one outgoing call


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token to another host."""

    redirect_request = staticmethod(lambda *_: None)  # type: ignore[assignment]


def next_page(bundle: Any) -> str:
    """The address of the next page of a search, or ""."""
    links = [link for link in dicts(bundle, "link") if link.get("relation") == "next"]
    return _text(links[0].get("url")) if links else ""


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
                raise HTTPException(412, "notes are missing, and this FHIR server may not be asked")
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


# --- RiskAssessment


def risk_assessments(name: str, fingerprint: str) -> Callable[..., Answer]:
    """Makes `?format=fhir`: one RiskAssessment, or for several stays a Bundle of them."""
    model = f"{name} {fingerprint[:12]}, domainbert {domainbert.__version__}"

    def make(records: Sequence[Row], score: Callable[..., Any]) -> Answer:
        rows, passages = score("readmission", records), score("passages", records)
        made = [_assessment(row, passages, model) for row in rows]
        failed = len(made) == 1 and made[0]["resourceType"] == "OperationOutcome"
        body = {"resourceType": "Bundle", "type": "collection"}
        bundle = body | {"entry": [{"resource": each} for each in made]}
        whole = made[0] if len(made) == 1 else bundle
        return Answer(whole, 422 if failed else 200, media_type="application/fhir+json")

    return make


def _assessment(row: Row, passages: Sequence[Row], model: str) -> dict[str, Any]:
    """The RiskAssessment of a row of risks; an OperationOutcome where there is no risk.

    `probabilityDecimal` is a percentage, 0 to 100: in R4 decimals are percentages (ras-2).
    """
    stay, patient = row.get("stay_id"), row.get("patient_id")
    if row["status"] != "ok" or not stay or not patient:
        why = row["reason"] or "a RiskAssessment needs patient_id and stay_id"
        return operation_outcome(422, f"no risk: {why}")
    own = [passage for passage in passages if passage["stay_id"] == stay]
    basis = [_reference("DocumentReference", note) for note in own[0]["notes_read"] if note]
    raising = [passage for passage in own if passage["direction"] == "raises"]
    said = "; ".join(f"“{' '.join(p['text'].split())}”" for p in raising) or "none"
    prediction = {"outcome": {"text": RISK}, "rationale": f"Passages that raise the risk: {said}"}
    prediction |= {"probabilityDecimal": round(100 * row["probability"], 4)}
    encounter = _reference("Encounter", stay)
    return {
        "resourceType": "RiskAssessment",
        "status": "final",
        "method": {"text": model},
        "subject": _reference("Patient", patient),
        "encounter": encounter,
        "occurrenceDateTime": now(),
        "basis": basis or [encounter],
        "prediction": [prediction],
        "note": [{"text": receipt(row)}],
    }


def _reference(kind: str, name: Any) -> dict[str, Any]:
    """A reference to a resource, by identifier where the id is none of FHIR's."""
    if _ID.match(str(name)):
        return {"reference": f"{kind}/{name}"}
    return {"type": kind, "identifier": {"value": str(name)}}


def receipt(row: Row, notes: str = "", unread: Mapping[str, int] = MappingProxyType({})) -> str:
    """What was read of a stay, in words."""
    said = [f"All {row['n_tokens']:,} tokens{notes} were read."]
    if row["reason"]:
        said = [f"{row['n_tokens']:,} tokens{notes} were read; {row['reason']}."]
    said += [f"Documents {why}, not read: {n}." for why, n in unread.items() if n]
    if not row["calibrated"]:
        said.append("The model has no calibrator: this is its score, not a calibrated chance.")
    return " ".join(said)
