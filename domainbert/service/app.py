"""The application: `/v1/TASK` for each task of the models, routes of their packages, health."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from domainbert.service.http import STOPPING, AsciiResponse, JsonLines, shell
from domainbert.service.ledger import Ledger, now
from domainbert.service.served import Announced, Served, announced, find_kind
from domainbert.service.trust import Trust
from domainbert.service.worker import Worker, count_characters

if TYPE_CHECKING:
    import socket

    from starlette.requests import Request

MAX_RECORDS = 1000  # of a request; each note of a stay counts
_BYTES_PER_CHARACTER = 12  # in JSON, "\\ud83d\\ude00" is one character
_M_ARENA_MAX = -8  # of mallopt, in malloc.h
_ITEMS = Counter("domainbert_items_total", "Items scored", ["task"])


class Records(BaseModel):
    """The body of a request: records with the columns of the task."""

    model_config = ConfigDict(extra="forbid", strict=True)
    records: list[dict[str, object]] = Field(min_length=1)


class Service:
    """The models of one process, and what their routes need.

    Args:
        settings: the options of `domainbert serve`.
        work: a private folder that the worker processes share.
        kinds: the kinds of models; by default those that the installed packages announce.

    Attributes:
        app: the application.
        errors: start of a path -> (status, reason) -> the body of a refusal there.
        forms: task and format -> records -> the response in this format.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        *,
        work: Path,
        kinds: Sequence[Announced] | None = None,
    ) -> None:
        self.settings = settings
        self.work = work
        self.ledger = Ledger(settings.ledger or work / "run.sqlite")
        self.trust = None
        if settings.trust:
            self.trust = Trust(Path(settings.trust), self.ledger)
        self.errors: dict[str, Callable[[int, str], Any]] = {}
        self.forms: dict[tuple[str, str], Callable[..., Response]] = {}
        # Names, numbers and punctuation are not counted as characters of text.
        self.most_bytes = _BYTES_PER_CHARACTER * settings.max_characters + (1 << 20)
        self._models: list[Served] = []
        self._workers: dict[str, tuple[Served, Worker]] = {}
        if kinds is None:
            kinds = announced()
        for model_name in settings.model:
            kind, name = find_kind(model_name, kinds)
            self._add_model(kind.load(name, cache=work / "windows.sqlite"))
        faults = (model.self_test(self.score) for model in self._models)
        self._fault = next(filter(None, faults), "")
        self._add_routes()

    def _add_model(self, model: Served) -> None:
        self._models.append(model)
        for path, task in model.tasks.items():
            if path in self._workers:
                other, _ = self._workers[path]
                raise UserError(
                    f"{other.name} and {model.name} both do {path}; name one of them"
                )
            count_items = _ITEMS.labels(path).inc
            self._workers[path] = (model, Worker(task, count_items))

    def score(
        self, task: str, records: Sequence[Mapping[str, object]], *, card: str = ""
    ) -> list[dict[str, Any]]:
        """The output rows of records; risks are kept in the ledger.

        It blocks, so it must not be called in an event loop.

        Raises:
            HTTPException: 413 if there are too many records or characters.
        """
        count = max(len(records), sum(_count_listed(record) for record in records))
        if count > MAX_RECORDS:
            raise HTTPException(
                413, f"{count:,} records; expected at most {MAX_RECORDS:,}"
            )
        size = sum(count_characters(record) for record in records)
        limit = self.settings.max_characters
        if size > limit:
            raise HTTPException(413, f"{size:,} characters; expected at most {limit:,}")
        model, worker = self._workers[task]
        rows = worker.score(records, self.settings.seconds)
        risks = [row for row in rows if row.get("stay_id") and "alert" in row]
        self.ledger.served(task, model.model.fingerprint(), risks, card)
        return rows

    def _add_routes(self) -> None:
        self.app = FastAPI(
            title="domainbert",
            version=domainbert.__version__,
            docs_url=None,
            redoc_url=None,
        )
        get = self.app.get
        get("/health", summary="Whether the process answers")(_health)
        get("/ready", summary="Whether the models answer as their cards say")(
            self._ready
        )
        get("/metrics", summary="Numbers for Prometheus")(_metrics)
        get("/v1", summary="The tasks, what they read and give, and the limits")(
            self._about
        )
        for name, (model, worker) in self._workers.items():
            summary = (type(worker.task).__doc__ or name).splitlines()[0]
            route = self.app.post(f"/v1/{name}", summary=summary)
            route(self._endpoint(name, model))
        pages = StaticFiles(packages=[("domainbert.service", "docs")], html=True)
        self.app.mount("/docs", pages)
        for model in self._models:
            model.routes(self, model)
        self.app.add_middleware(
            CORSMiddleware,
            allow_origins=self.settings.cors or (),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-request-id"],
        )
        if self.trust is None:
            # A page of another site must not reach this machine under a name of its own.
            self.app.add_middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK)
        self.app.add_middleware(shell, self)
        for kind in (HTTPException, RequestValidationError, UserError, TimeoutError):
            self.app.add_exception_handler(kind, self._refuse)

    def _endpoint(self, task: str, served: Served) -> Callable[..., Response]:
        """The function that answers `/v1/TASK`."""
        about = {
            "task": task,
            "model": served.name,
            "fingerprint": served.model.fingerprint(),
            "version": domainbert.__version__,
        }

        def answer(body: Records, format: str = "json") -> Response:  # noqa: A002
            form = self.forms.get((task, format))
            if form:
                return form(body.records)
            if format != "json":
                raise HTTPException(400, "format: no such form; leave it out for JSON")
            rows = self.score(task, body.records)
            return AsciiResponse({**about, "time": now(), "records": rows})

        return answer

    def _refuse(self, request: Request, error: Exception) -> AsciiResponse:
        return self.refusal(request.url.path, error)

    def refusal(self, path: str, error: Exception) -> AsciiResponse:
        """The response to a request that cannot be answered."""
        status = 400
        reason = str(error)
        headers = None
        if isinstance(error, HTTPException):
            status = error.status_code
            reason = error.detail
            headers = error.headers
        elif isinstance(error, TimeoutError):
            status = 503
            headers = {"retry-after": "5"}
            seconds = self.settings.seconds
            reason = f"not done within {seconds:g} s; send less, or send it again later"
        elif isinstance(error, RequestValidationError):
            # The name of the field, never its value.
            problem = error.errors()[0]
            name = ".".join(map(str, problem["loc"]))
            reason = f"{name}: {problem['msg'].removeprefix('Value error, ')}"
        body: Any = {"error": reason, "status": status}
        for start, make_body in self.errors.items():
            if path.startswith(start):
                body = make_body(status, reason)
        return AsciiResponse(body, status, headers)

    async def _ready(self) -> AsciiResponse:
        body = {
            "ready": not self._fault,
            "models": [model.name for model in self._models],
            "why": self._fault,
        }
        return AsciiResponse(body, 503 if self._fault else 200)

    async def _about(self) -> dict[str, object]:
        tasks = {}
        for name, (model, worker) in self._workers.items():
            columns = [column.name for column in worker.task.columns]
            tasks[name] = {"model": model.name, "reads": columns}
        limits = {
            "max_characters": self.settings.max_characters,
            "seconds": self.settings.seconds,
            "max_records": MAX_RECORDS,
        }
        return {"version": domainbert.__version__, "tasks": tasks, "limits": limits}


def _count_listed(record: Mapping[str, object]) -> int:
    """The notes of a stay, and other values in lists."""
    return sum(len(value) for value in record.values() if isinstance(value, list))


def _health() -> dict[str, str]:
    return {"status": "ok"}


async def _metrics() -> Response:
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # the numbers of all processes
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    return PlainTextResponse(generate_latest(registry))


def application() -> FastAPI:
    """The application of one process of `domainbert serve`."""
    options, work = json.loads(os.environ[SETTINGS])
    settings = ServiceSettings(**options)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    level = settings.log_level.upper()
    logging.basicConfig(handlers=[handler], level=level, force=True)
    _limit_arenas()
    _stop_gently()
    return Service(settings, work=Path(work)).app


def _limit_arenas() -> None:
    """Let all threads share two memory arenas: with one for each thread, memory grows for hours."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _stop_gently() -> None:
    """Let uvicorn, when it stops, answer what it has accepted and not read yet.

    Its method is replaced, because its supervisor of several processes makes the servers itself.
    """
    shutdown = uvicorn.Server.shutdown

    async def shutdown_gently(
        server: uvicorn.Server, sockets: list[socket.socket] | None = None
    ) -> None:
        STOPPING.set()
        for listening in server.servers:
            listening.close()
        await asyncio.sleep(1.0)  # for requests on their way
        await shutdown(server, sockets)

    uvicorn.Server.shutdown = shutdown_gently  # type: ignore[assignment, method-assign]
