"""The application: `/v1/TASK` for every task of the models, their packages' own routes, health."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    generate_latest,
    multiprocess,
)
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

import domainbert
from domainbert.errors import UserError
from domainbert.service.commands import LOOPBACK, SETTINGS, ServiceSettings
from domainbert.service.http import STOPPING, Answer, JsonLines, Trust, shell
from domainbert.service.ledger import Ledger, now
from domainbert.service.served import (
    Announced,
    Served,
    Worker,
    announced,
    characters,
    find_kind,
)

MOST_RECORDS = 1000  # of a request; the notes of a stay count each
_BYTES = 12  # of a body, for each character that is allowed: "\\ud83d\\ude00" is one
_ITEMS = Counter("domainbert_items_total", "Items scored", ["task"])


class Records(BaseModel):
    """The body of a request: records with the columns of the task, as in a table."""

    model_config = ConfigDict(extra="forbid", strict=True)
    records: list[dict[str, Any]] = Field(min_length=1)


class Service:
    """The models of one process, and all that their routes need; `app` is the application.

    `work` is a private folder that the workers share.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        work: Path,
        kinds: Sequence[Announced] | None = None,
    ) -> None:
        self.settings, self.work = settings, work
        self.ledger = Ledger(settings.ledger or work / "run.sqlite")
        self.trust = (
            Trust(Path(settings.trust), self.ledger) if settings.trust else None
        )
        self.errors: dict[
            str, Callable[[int, str], Any]
        ] = {}  # by the start of the path
        self.forms: dict[
            tuple[str, str], Callable[..., Response]
        ] = {}  # by task and format
        self.most_bytes = _BYTES * settings.max_characters + (1 << 20)
        self._models: list[Served] = []
        self._workers: dict[str, tuple[Served, Worker]] = {}
        for asked in settings.model:
            kind, name = find_kind(asked, announced() if kinds is None else kinds)
            model = kind.load(name, cache=work / "windows.sqlite")
            self._models.append(model)
            for path, task in model.tasks.items():
                if path in self._workers:
                    other = self._workers[path][0].name
                    raise UserError(
                        f"{other} and {model.name} both do {path}; name one of them"
                    )
                self._workers[path] = model, Worker(task, _ITEMS.labels(path).inc)
        self._fault = next(
            filter(None, (m.self_test(self.score) for m in self._models)), ""
        )
        self._add_routes()

    def score(
        self, task: str, records: Sequence[Mapping[str, Any]], *, card: str = ""
    ) -> list[dict[str, Any]]:
        """The output rows of records, risks kept in the ledger; it blocks: not in an event loop."""
        lists = [
            value
            for each in records
            for value in each.values()
            if isinstance(value, list)
        ]
        count, most = (
            max(len(records), sum(map(len, lists))),
            self.settings.max_characters,
        )
        if count > MOST_RECORDS:
            raise HTTPException(
                413, f"{count:,} records; expected at most {MOST_RECORDS:,}"
            )
        if (size := sum(map(characters, records))) > most:
            raise HTTPException(413, f"{size:,} characters; expected at most {most:,}")
        model, worker = self._workers[task]
        rows = worker.score(records, self.settings.seconds)
        risks = [row for row in rows if row.get("stay_id") and "alert" in row]
        self.ledger.served(task, model.model.fingerprint(), risks, card)
        return rows

    def _add_routes(self) -> None:
        about: dict[str, Any] = {
            "title": "domainbert",
            "version": domainbert.__version__,
        }
        self.app = app = FastAPI(**about, docs_url=None, redoc_url=None)
        app.get("/health", summary="Whether the process answers")(
            lambda: {"status": "ok"}
        )
        app.get("/ready", summary="Whether the models answer as their cards say")(
            self._ready
        )
        app.get("/metrics", summary="Numbers for Prometheus")(_metrics)
        app.get("/v1", summary="The tasks, what they read and give, and the limits")(
            self._about
        )
        for name, (model, worker) in self._workers.items():
            summary = (type(worker.task).__doc__ or name).splitlines()[0]
            app.post(f"/v1/{name}", summary=summary)(self._answer(name, model))
        app.mount(
            "/docs", StaticFiles(packages=[("domainbert.service", "docs")], html=True)
        )
        for model in self._models:
            model.routes(self, model)
        app.add_middleware(
            CORSMiddleware,
            allow_origins=self.settings.cors or (),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-request-id"],
        )
        if (
            self.trust is None
        ):  # a page of another site must not reach us by a name of its own
            app.add_middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK)
        app.add_middleware(shell, self)
        for kind in (HTTPException, RequestValidationError, UserError, TimeoutError):
            app.add_exception_handler(
                kind, lambda asked, why: self.refusal(asked.url.path, why)
            )

    def _answer(self, task: str, served: Served) -> Callable[..., Response]:
        same = {
            "task": task,
            "model": served.name,
            "fingerprint": served.model.fingerprint(),
        }
        same["version"] = domainbert.__version__

        def answer(body: Records, format: str = "json") -> Response:  # noqa: A002
            if form := self.forms.get((task, format)):
                return form(body.records)
            if format != "json":
                raise HTTPException(400, "format: no such form; leave it out for JSON")
            return Answer(
                {**same, "time": now(), "records": self.score(task, body.records)}
            )

        return answer

    def refusal(self, path: str, error: Exception) -> Answer:
        """The answer to a request without a result."""
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
        forms = [form for start, form in self.errors.items() if path.startswith(start)]
        body = forms[0](status, why) if forms else {"error": why, "status": status}
        return Answer(body, status, headers)

    async def _ready(self) -> Answer:
        ready = {"ready": not self._fault, "models": [m.name for m in self._models]}
        return Answer(ready | {"why": self._fault}, 503 if self._fault else 200)

    async def _about(self) -> dict[str, Any]:
        tasks = {
            name: {
                "model": model.name,
                "reads": [column.name for column in worker.task.columns],
            }
            for name, (model, worker) in self._workers.items()
        }
        limits = {
            name: getattr(self.settings, name) for name in ("max_characters", "seconds")
        }
        limits["max_records"] = MOST_RECORDS
        return {"version": domainbert.__version__, "tasks": tasks, "limits": limits}


async def _metrics() -> Response:
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # of all workers
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    return PlainTextResponse(generate_latest(registry))


def application() -> FastAPI:
    """The application of one process of `domainbert serve`."""
    found, work = json.loads(os.environ[SETTINGS])
    settings = ServiceSettings(**found)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(
        handlers=[handler], level=settings.log_level.upper(), force=True
    )
    _stop_gently()
    return Service(settings, work=Path(work)).app


def _stop_gently() -> None:
    """Make uvicorn answer, at its end, what it accepted and has not read yet."""
    plain = uvicorn.Server.shutdown

    async def shutdown(server: uvicorn.Server, sockets: Any = None) -> None:
        STOPPING.set()
        for listening in server.servers:
            listening.close()
        await asyncio.sleep(1.0)  # for requests that are on their way
        await plain(server, sockets)

    uvicorn.Server.shutdown = shutdown  # type: ignore[assignment, method-assign]
