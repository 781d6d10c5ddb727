"""Readmission risks as CDS Hooks cards with their evidence, and as FHIR RiskAssessments."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, get_args

from cryptography.fernet import Fernet, InvalidToken
from fastapi import Body, Header
from jinja2 import Environment, PackageLoader
from pydantic import Field
from starlette.exceptions import HTTPException

import domainbert
from clinical.bedside.hooks import (
    Documents,
    Feedback,
    Hook,
    HookRequest,
    NoRiskError,
    fetch_documents,
    has_failed,
    missing_count,
    next_page,
    operation_outcome,
    origins,
    read_documents,
    resource_row,
)
from clinical.cohort.fhir.files import entries
from clinical.cohort.fhir.values import address_id, values
from clinical.risk.exports import risk_assessment
from clinical.risk.reading import RiskGroup, remaining_risk
from clinical.stays.stays import note_time
from domainbert.files import JsonObject, data_text
from domainbert.service.http import (
    MAX_RECORDS,
    AsciiResponse,
    where,
)
from domainbert.service.ledger import now

if TYPE_CHECKING:
    from domainbert.service.app import Service
    from domainbert.service.served import Served

    Row = Mapping[str, Any]

log = logging.getLogger(__name__)
TASK = "readmission"  # and the last part of the address
KEPT_SECONDS = 900
_TEXTS = json.loads(data_text(__file__, "texts/readmission.json"))
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&:@])")


class ReadmissionService:
    """The risk of readmission, at discharge and when a record is opened, with its routes."""

    def __init__(self, service: Service, served: Served) -> None:
        self._service = service
        self._servers = origins(service.settings.fhir or ())
        self._groups = served.model.settings.after_discharge
        fingerprint = served.model.fingerprint()[:12]
        self._method = (
            f"{served.name} {fingerprint}, domainbert {domainbert.__version__}"
        )
        self._outcome = str(served.tasks[TASK].about()["outcome"])
        self._folder = service.work / "evidence"
        about = _TEXTS["about"] | {"title": f"Risk: {self._outcome}"}
        services = [{"hook": hook, **about} for hook in get_args(Hook)]
        offered = {"services": services}
        discovery = service.app.get(
            "/cds-services", description="CDS Hooks: discovery."
        )
        discovery(lambda: offered)
        service.app.get("/evidence")(self._kept_evidence)
        service.app.post("/cds-services/readmission")(self.answer)
        service.app.post("/cds-services/readmission/feedback")(
            self.keep_feedback
        )
        service.errors["/cds-services"] = operation_outcome
        service.forms[TASK, "fhir"] = self.assessments

    def cards(self, request: HookRequest) -> list[dict[str, object]]:
        """One card; none outside of a stay, before its first note, or if it can have no risk."""
        stay = address_id(request.context.encounterId or "")
        if not stay:
            if request.hook == "patient-view":
                return []
            raise HTTPException(
                400, "context.encounterId: required for encounter-discharge"
            )
        try:
            records, receipt = self.documents(request, stay)
        except NoRiskError:
            return []
        if not records:
            counts = [f"{reason}: {n}" for reason, n in receipt.items() if n]
            if not counts and request.hook == "patient-view":
                return []  # nothing was written yet
            reasons = "; ".join(counts) or "none was sent"
            raise HTTPException(
                412,
                f"prefetch.notes: no note of this stay can be read ({reasons})",
            )
        name = str(uuid.uuid4())
        passages = self._service.score("passages", records)
        (risk,) = self._service.score(TASK, records, card=name)
        if risk["status"] != "ok":
            raise HTTPException(
                412, f"prefetch.notes: no risk, because {risk['reason']}"
            )
        by_id = {record["note_id"]: record for record in records}
        notes = [by_id[note] for note in passages[0]["notes_read"]]
        n_unchosen = len(by_id) - len(notes)
        receipt["that the model does not choose, not read"] = n_unchosen
        evidence = {"records": notes, "risk": risk, "passages": passages}
        return [self._card(name, evidence, receipt)]

    def _card(
        self, name: str, evidence: JsonObject, receipt: Mapping[str, int]
    ) -> dict[str, object]:
        """The card of a risk; it links to the evidence if that can be kept."""
        risk = evidence["risk"]
        notes = evidence["records"]
        settings = self._service.settings
        report = ""
        if settings.report:
            report = f" Report: {settings.report}"
        summary, statement = self._statements(risk, notes[0]["discharge_time"])
        detail = _CARD.render(
            statement=statement,
            passages=passage_list(evidence["passages"], notes),
            receipt=receipt_text(risk, receipt, n_notes=len(notes)),
            method=self._method,
            report=report,
        )
        url = settings.report or settings.address
        card = {
            "uuid": name,
            "summary": summary,
            "detail": detail,
            "indicator": "warning" if risk.get("alert") else "info",
            "source": {"label": self._method, "url": url},
            "overrideReasons": _TEXTS["reasons"],
        }
        key = self._keep_evidence(evidence)
        if key:
            link = _TEXTS["link"] | {"url": f"{settings.address}/#card={key}"}
            card["links"] = [link]
        return card

    def _statements(
        self, risk: Row, discharge_time: object
    ) -> tuple[str, str]:
        """The summary and the statement of a risk; after discharge, with the days that remain."""
        summary, statement = risk_statement(risk, self._outcome)
        discharged = note_time(discharge_time)
        if discharged:
            days = (datetime.now(UTC) - discharged) / timedelta(days=1)
            statement += remaining_statement(risk, self._groups, days)
        return summary, statement

    def answer(self, request: HookRequest) -> AsciiResponse:
        """CDS Hooks: the card of a call."""
        return AsciiResponse({"cards": self.cards(request)})

    def keep_feedback(
        self,
        feedback: Annotated[
            list[Feedback],
            Body(embed=True),
            Field(min_length=1, max_length=MAX_RECORDS),
        ],
    ) -> AsciiResponse:
        """CDS Hooks: feedback, kept without its texts. A code that is not ours is "other"."""
        entries_kept = [
            (str(entry.card), entry.outcome, self._reason_code(entry))
            for entry in feedback
        ]
        self._service.ledger.feedback(TASK, entries_kept)
        return AsciiResponse({})

    def _reason_code(self, entry: Feedback) -> str:
        """Our code for a reason to override a card, or "other"; "" without a reason."""
        coding = (entry.overrideReason or {}).get("reason")
        if not coding:
            return ""
        system = values(coding, "system")
        code = values(coding, "code")
        for reason in _TEXTS["reasons"]:
            if system == [reason["system"]] and code == [reason["code"]]:
                return reason["code"]
        return "other"

    def documents(self, request: HookRequest, stay: str) -> Documents:
        """The notes of a stay, prefetched or from the FHIR server; see `read_documents`."""
        prefetch = request.prefetch or {}
        patient = address_id(request.context.patientId)
        encounters = [
            resource | {"resourceType": "Encounter"}
            for resource in entries(prefetch.get("encounter"))
            if resource.get("resourceType") in (None, "Encounter")
        ]
        for encounter in encounters:  # before any server is asked
            resource_row(encounter, "Encounter", patient)
        notes = prefetch.get("notes")
        resources = entries(notes)
        next_address = next_page(notes)
        fault = ""
        if "notes" not in prefetch:
            fault = "is missing"
        elif has_failed(resources):
            fault = "is an error"
            resources = []  # all pages are asked for, and none is read twice
            next_address = ""
        elif next_address:
            fault = "has another page"
        elif lacking := missing_count(notes):
            fault = f"lacks {lacking} of its notes"
            resources = []
        if fault:
            authorization = request.fhirAuthorization
            if not authorization:
                raise HTTPException(
                    412,
                    f"prefetch.notes {fault}, and no FHIR server was named",
                )
            resources += fetch_documents(
                request.fhirServer or "",
                authorization.access_token,
                stay,
                servers=self._servers,
                proxy=self._service.settings.fhir_proxy,
                start=next_address,
            )
        return read_documents([*encounters, *resources], patient, stay)

    def assessments(self, records: Sequence[Row]) -> AsciiResponse:
        """`?format=fhir`: a RiskAssessment or OperationOutcome; of several stays, a Bundle."""
        passages = self._service.score("passages", records)
        risks = self._service.score(TASK, records)
        assessments = [self._assessment(risk, passages) for risk in risks]
        if len(assessments) == 1:
            (content,) = assessments
        else:
            entries = [{"resource": assessment} for assessment in assessments]
            content = {
                "resourceType": "Bundle",
                "type": "collection",
                "entry": entries,
            }
        status = 200
        if has_failed([content]):
            status = 422
        return AsciiResponse(
            content, status, media_type="application/fhir+json"
        )

    def _assessment(self, risk: Row, passages: Sequence[Row]) -> JsonObject:
        """The risk of a stay as a FHIR RiskAssessment, or why there is none."""
        stay = risk.get("stay_id")
        if risk["status"] != "ok" or not stay or not risk.get("patient_id"):
            reason = (
                risk["reason"]
                or "a RiskAssessment needs patient_id and stay_id"
            )
            return operation_outcome(422, f"no risk: {reason}")
        of_stay = [
            passage for passage in passages if passage["stay_id"] == stay
        ]
        notes = of_stay[0]["notes_read"]
        return risk_assessment(
            risk,
            self._method,
            self._outcome.capitalize(),
            time=now(),
            passages=[
                passage["text"] for passage in of_stay if _raises(passage)
            ],
            documents=[note for note in notes if note],
            remark=receipt_text(risk, {}, n_notes=len(notes)),
        )

    def _keep_evidence(self, evidence: JsonObject) -> str:
        """Keep evidence for all workers, encrypted; only the link of the card has the key.

        Returns "" if it cannot be kept.
        """
        key = Fernet.generate_key()
        content = Fernet(key).encrypt(json.dumps(evidence).encode())
        try:
            # A cleaner of temporary files may have removed both folders.
            self._service.work.mkdir(mode=0o700, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):  # another worker removed it
                for file in self._folder.iterdir():
                    if file.stat().st_mtime < time.time() - KEPT_SECONDS:
                        file.unlink()
            file = self._folder / hashlib.sha256(key).hexdigest()
            file.write_bytes(content)
        except OSError as error:  # a full or read-only disk costs the link
            log.error("evidence", extra={"facts": where(error)})
            return ""
        return key.decode()

    def _kept_evidence(
        self, key: Annotated[str, Header(alias="x-card-key")]
    ) -> AsciiResponse:
        """The evidence that is kept under the hash of a card's key, decrypted with the key."""
        try:
            file = self._folder / hashlib.sha256(key.encode()).hexdigest()
            evidence = Fernet(key).decrypt(file.read_bytes(), ttl=KEPT_SECONDS)
        except (OSError, ValueError, InvalidToken):
            raise HTTPException(
                404,
                f"evidence is kept {KEPT_SECONDS / 60:g} minutes",
            ) from None
        return AsciiResponse(json.loads(evidence))


def risk_statement(risk: Row, outcome: str) -> tuple[str, str]:
    """The summary of a card, and the statement of the risk that its detail begins with."""
    key = "calibrated" if risk["calibrated"] else "score"
    texts = _TEXTS["statements"][key]
    probability = risk["probability"]
    percent = round(100 * probability)
    values = {
        "outcome": escaped(outcome),
        "Outcome": shorten(outcome.capitalize(), 90, placeholder=" …"),
        "probability": probability,
        "percent": percent,
        "complement": 100 - percent,
    }
    return texts["summary"].format(**values), texts["detail"].format(**values)


def remaining_statement(
    risk: Row, groups: Sequence[RiskGroup], days: float
) -> str:
    """What is left of the risk some days after discharge; "" where that is not known."""
    if not groups or not 1 <= days < groups[0].horizon:
        return ""
    remaining = remaining_risk(groups, risk["probability"], days)
    text: str = _TEXTS["remaining"]
    return text.format(
        days=int(days),
        horizon=groups[0].horizon,
        percent=round(100 * remaining),
    )


def passage_list(passages: Sequence[Row], notes: Sequence[Row]) -> str:
    """The passages that raise the risk, each with the category and the day of its note."""
    entries = []
    for number, passage in enumerate(filter(_raises, passages), start=1):
        text = passage["text"]
        note = notes[passage["note"]]
        origin = "notes"
        # A model that joins the notes does not tell which one holds a passage.
        if text in note["text"]:
            labels = [note["category"], note["chart_time"][:10]]
            origin = ", ".join(filter(None, labels))
        entry = _PASSAGE.render(number=number, origin=origin, text=text)
        entries.append(f"\n{entry}\n")
    return "".join(entries)


def receipt_text(
    risk: Row,
    documents: Mapping[str, int],
    *,
    n_notes: int,
) -> str:
    """What was read of a stay, and the numbers of `documents` by what became of them."""
    unit = "note" if n_notes == 1 else "notes"
    amount = f"{risk['n_tokens']:,} tokens of {n_notes} {unit}"
    sentences = [f"All {amount} were read."]
    if risk["reason"]:
        sentences = [f"{amount} were read; {risk['reason']}."]
    sentences += [
        f"Documents {reason}: {n}." for reason, n in documents.items() if n
    ]
    if not risk["calibrated"]:
        sentences.append(_TEXTS["uncalibrated"])
    return " ".join(sentences)


def _raises(passage: Row) -> bool:
    return passage["direction"] == "raises"


def escaped(text: str) -> str:
    """A text as Markdown that shows just this text, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


# Markdown for the EHR's own renderer: `escaped` is used in place of HTML escapes.
_TEMPLATES = Environment(
    loader=PackageLoader(__package__, "texts"),
    autoescape=False,  # noqa: S701
)
_TEMPLATES.filters["escaped"] = escaped
_CARD = _TEMPLATES.get_template("card.md.j2")
_PASSAGE = _TEMPLATES.get_template("passage.md.j2")
