"""The application: `/v1/TASK` for every task of the models, their packages' own routes, health."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request  # noqa: TC002  (FastAPI reads it)
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

import domainbert
from domainbert.errors import UserError
from domainbert.service.http import LOOPBACK, Answer, Shell, Trust
from domainbert.service.ledger import Ledger, now
from domainbert.service.served import Announced, Served, Worker, announced, characters, find_kind
from domainbert.settings import Count, Names, Positive, Settings

_BYTES = 12  # of a body, for each character that is allowed: "\\ud83d\\ude00" is one


class ServiceSettings(Settings):
    """What `domainbert serve` was asked for; `work` is a private folder of the run."""

    models: Names
    address: str = "http://127.0.0.1:8000"
    work: str
    trust: str | None = None
    cors: Names = ()
    fhir: Names = ()
    ledger: str | None = None
    report: str = ""
    max_characters: Count = 500_000
    max_records: Count = 1000
    seconds: Positive = 60.0


class Records(BaseModel):
    """The body of a request: records with the columns of the task, as in a table."""

    model_config = ConfigDict(extra="forbid", strict=True)
    records: list[dict[str, Any]] = Field(min_length=1)


class Service:
    """The models of one process, and all that their routes need; `app` is the application."""

    def __init__(self, settings: ServiceSettings, kinds: Sequence[Announced] | None = None) -> None:
        self.settings, work = settings, Path(settings.work)
        self.ledger = Ledger(settings.ledger or work / "run.sqlite")
        self.trust = Trust(Path(settings.trust), self.ledger) if settings.trust else None
        self.errors: dict[str, Callable[[int, str], Any]] = {}
        self.most_bytes = _BYTES * settings.max_characters + (1 << 20)
        self._registry = CollectorRegistry()
        numbers = ("domainbert_request_seconds", "Time to answer", ["route", "status"])
        self.seconds = Histogram(*numbers, registry=self._registry)
        numbers = ("domainbert_items_total", "Items scored", ["task"])
        self._items = Counter(*numbers, registry=self._registry)
        self._models: list[Served] = []
        self._workers: dict[str, tuple[Served, Worker]] = {}
        for asked in settings.models:
            kind, name = find_kind(asked, announced() if kinds is None else kinds)
            model = kind.load(name, cache=work / "windows.sqlite")
            self._models.append(model)
            for path, task in model.tasks.items():
                if path in self._workers:
                    other = self._workers[path][0].name
                    raise UserError(f"{other} and {model.name} both do {path}; name one of them")
                self._workers[path] = model, Worker(task, self._items.labels(path).inc)
        self._fault = next(filter(None, (m.self_test(self.score) for m in self._models)), "")
        self.app = self._application()

    def score(self, task: str, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The output rows of records; it blocks: never call it from the event loop."""
        return self._workers[task][1].score(records, self.settings.seconds)

    def check(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The records of a request; an `HTTPException` 413 where they are too many or too long."""
        lists = [value for each in records for value in each.values() if isinstance(value, list)]
        sizes = {"records": max(len(records), sum(map(len, lists)))}
        sizes["characters"] = sum(map(characters, records))
        for what, size in sizes.items():
            if size > (most := getattr(self.settings, f"max_{what}")):
                raise HTTPException(413, f"{size:,} {what}; expected at most {most:,}")
        return records

    def close(self) -> None:
        """End the threads, after what they were asked for."""
        for _, worker in self._workers.values():
            worker.close()

    def _application(self) -> FastAPI:
        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            yield
            self.close()

        about: dict[str, Any] = {"title": "domainbert", "version": domainbert.__version__}
        self.app = app = FastAPI(**about, docs_url=None, redoc_url=None, lifespan=lifespan)
        app.get("/health", summary="Whether the process answers")(lambda: {"status": "ok"})
        app.get("/ready", summary="Whether the models answer as their cards say")(self._ready)
        app.get("/metrics", summary="Numbers for Prometheus")(self._metrics)
        app.get("/v1", summary="The tasks, what they read and give, and the limits")(self._about)
        app.get("/v1/models/{name}", summary="The card of a model")(self._card)
        for name, (model, worker) in self._workers.items():
            summary = (type(worker.task).__doc__ or name).splitlines()[0]
            app.post(f"/v1/{name}", summary=summary)(self._answer(name, model))
        app.mount("/docs", StaticFiles(packages=[("domainbert.service", "docs")], html=True))
        for model in self._models:
            if model.routes:
                model.routes(self, model)
        if self.settings.cors:
            allowed: dict[str, Any] = {"allow_origins": self.settings.cors}
            allowed["allow_headers"] = ["authorization", "content-type", "x-request-id"]
            app.add_middleware(CORSMiddleware, allow_methods=["GET", "POST"], **allowed)
        if self.trust is None:  # a page of another site must not reach us by a name of its own
            app.add_middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK)
        app.add_middleware(Shell, self)
        for kind in (HTTPException, RequestValidationError, UserError, TimeoutError):
            app.add_exception_handler(kind, self._on_error)
        return app

    def _answer(self, task: str, model: Served) -> Callable[..., Response]:
        same = {"task": task, "model": model.name, "fingerprint": model.fingerprint}
        same["version"] = domainbert.__version__

        def answer(body: Records, format: str = "json") -> Response:  # noqa: A002
            records = self.check(body.records)
            if (task, format) in model.forms:
                return model.forms[task, format](records, self.score)
            if format != "json":
                raise HTTPException(400, "format: no such form; leave it out for JSON")
            rows = self.score(task, records)
            risks = [row for row in rows if row.get("stay_id") and "alert" in row]
            self.ledger.served(task, model.fingerprint, risks)
            return Answer({**same, "time": now(), "records": rows})

        return answer

    def failed(self, path: str, status: int, why: str) -> Any:
        """The body of an answer without a result."""
        forms = [form for start, form in self.errors.items() if path.startswith(start)]
        return forms[0](status, why) if forms else {"error": why, "status": status}

    async def _on_error(self, request: Request, error: Any) -> Response:
        status, why, headers = 400, str(error), None
        if isinstance(error, HTTPException):
            status, why, headers = error.status_code, error.detail, error.headers
        elif isinstance(error, TimeoutError):
            status, headers = 503, {"retry-after": "5"}
            why = f"not done within {self.settings.seconds:g} s; send less, or send it again later"
        elif isinstance(error, RequestValidationError):  # the field, never its value
            problem = error.errors()[0]
            place = ".".join(map(str, problem["loc"]))
            why = f"{place}: {problem['msg'].removeprefix('Value error, ')}"
        return Answer(self.failed(request.url.path, status, why), status, headers)

    async def _ready(self) -> Answer:
        ready = {"ready": not self._fault, "models": [m.name for m in self._models]}
        return Answer(ready | {"why": self._fault}, 503 if self._fault else 200)

    async def _about(self) -> dict[str, Any]:
        tasks = {
            name: {"model": model.name, "reads": [column.name for column in worker.task.columns]}
            for name, (model, worker) in self._workers.items()
        }
        limits = self.settings.model_dump(include={"max_characters", "max_records", "seconds"})
        return {"version": domainbert.__version__, "tasks": tasks, "limits": limits}

    async def _card(self, name: str) -> Response:
        cards = [model.card for model in self._models if model.name == name]
        if not cards:
            raise HTTPException(404, "no model of this name is served here")
        return PlainTextResponse(cards[0], media_type="text/markdown")

    async def _metrics(self) -> Response:
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # of all workers
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)
        return PlainTextResponse(generate_latest(registry))
