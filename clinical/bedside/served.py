"""What `domainbert serve` offers of readmission models: risks, passages, cards, and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from domainbert.service.served import Announced, Form, Served

if TYPE_CHECKING:
    from pathlib import Path

PAGE = {"/": "page.html", "/page.js": "page.js", "/page.css": "page.css"}


def load(name: str, *, cache: str | Path) -> Served:
    """A readmission model with its tasks `readmission` and `passages`."""
    from clinical.bedside.fhir import risk_assessments
    from clinical.evidence.task import ExplainTask
    from clinical.risk.model import RiskModel
    from clinical.risk.task import ReadmissionTask
    from domainbert.scoring.cache import WindowCache

    model = RiskModel.from_pretrained(name)
    fingerprint = model.fingerprint()
    model.cache = WindowCache(cache, model=fingerprint)
    known = model.manifest.get("example")
    return Served(
        name=name,
        fingerprint=fingerprint,
        tasks={
            "readmission": ReadmissionTask(model, contributions=True),
            "passages": ExplainTask(model, top=3, text=True),
        },
        example=("readmission", known["record"], known["row"]) if known else None,
        card=model.card(model.config, model.adapter) if model.config else "",
        forms={
            ("readmission", "fhir"): Form(
                "application/fhir+json", risk_assessments(name, fingerprint)
            )
        },
        routes=_routes,
    )


def _routes(service: Any, served: Served) -> None:
    """The CDS services, and the page."""
    from clinical.bedside.hooks import ReadmissionService, add_services

    add_services(service, [ReadmissionService(service, served)])
    for path, name in PAGE.items():
        service.file(path, "clinical.bedside", name)


READMISSION = Announced("readmission", "clinical", load)
