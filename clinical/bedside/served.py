"""What `domainbert serve` offers of readmission models: risks, passages, cards, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from domainbert.service.served import Announced, Served

if TYPE_CHECKING:
    from domainbert.encoders.precision import Dtype
    from domainbert.service.app import Service


def load(name: str, *, cache: Path, dtype: Dtype = "float32") -> Served:
    """A readmission model with its tasks `readmission` and `passages`."""
    from clinical.evidence.task import ExplainTask
    from clinical.risk.model import ReadmissionModel
    from clinical.risk.task import ReadmissionTask
    from domainbert.scoring.cache import WindowCache

    model = ReadmissionModel.from_pretrained(name, dtype=dtype)
    model.cache = WindowCache(cache, model=model.fingerprint())
    passages = ExplainTask(model, top=3, text=True, sources=True)
    is_known = bool(model.settings.after_discharge)
    risks = ReadmissionTask(model, remaining=is_known)
    return Served(
        model,
        {"readmission": risks, "passages": passages},
        _routes,
    )


def _routes(service: Service, served: Served) -> None:
    """Add CDS Hooks, the form "fhir" and the page."""
    from starlette.staticfiles import StaticFiles

    from clinical.bedside.cards import ReadmissionService

    ReadmissionService(service, served)
    service.app.mount(
        "/",
        StaticFiles(packages=[("clinical.bedside", "page")], html=True),
    )


READMISSION = Announced("readmission", "clinical", load)


def load_groups(name: str, *, cache: Path, dtype: Dtype = "float32") -> Served:
    """A diagnosis model with its task `diagnoses`."""
    from clinical.risk.diagnoses import DiagnosisModel
    from clinical.risk.diagnosis_task import DiagnosisTask
    from domainbert.scoring.cache import WindowCache

    model = DiagnosisModel.from_pretrained(name, dtype=dtype)
    model.cache = WindowCache(cache, model=model.fingerprint())
    return Served(model, {"diagnoses": DiagnosisTask(model)})


DIAGNOSES = Announced("diagnoses", "clinical", load_groups)
