"""The application: `/v1/TASK` for each task of the models, routes of their packages, health."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
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
from domainbert.files import is_running
from domainbert.service.commands import LOOPBACK, SETTINGS, ServiceSettings
from domainbert.service.http import (
    MAX_NAME,
    MAX_RECORDS,
    AsciiResponse,
    BodyRoute,
    JsonLines,
    admission,
    seconds_left,
    shell,
    where,
)
from domainbert.service.ledger import Ledger, now
from domainbert.service.served import (
    Announced,
    Served,
    announced,
    find_task,
)
from domainbert.service.trust import Trust
from domainbert.service.worker import (
    OutputRows,
    Record,
    Worker,
    count_characters,
)
from domainbert.tables import STAY

if TYPE_CHECKING:
    from starlette.requests import Request

log = logging.getLogger(__name__)
_BYTES_PER_CHARACTER = 12  # in JSON, "\\ud83d\\ude00" is one character
# Added to the name of a task in the ledger and the metrics.
_SHADOW = " (shadow)"
# Calls that may wait for the next model; it does not see further ones.
_SHADOW_CALLS = 100
_ROWS = Counter("domainbert_rows_total", "Rows of results", ["task", "status"])
_QUEUE = Gauge(
    "domainbert_queue_length",
    "Requests that wait for the model",
    ["task"],
    multiprocess_mode="livesum",
)
_LAST_RISK = Gauge(
    "domainbert_last_risk_timestamp_seconds",
    "When the last risk was given",
    ["task"],
    multiprocess_mode="mostrecent",
)
_MODEL = Gauge(
    "domainbert_model_info",
    "The models that are loaded",
    ["task", "model", "fingerprint"],
    multiprocess_mode="livemax",
)


class Records(BaseModel):
    """The body of a request: records with the columns of the task."""

    model_config = ConfigDict(extra="forbid", strict=True)
    # A million wrong records are one error.
    records: list[dict[str, object]] = Field(min_length=1, fail_fast=True)


class Service:
    """The models of one process, and what their routes need.

    Args:
        settings: the options of `domainbert serve`.
        work: a private folder that the worker processes share.
        announced_tasks: by default those that the installed packages announce.

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
        announced_tasks: Sequence[Announced] | None = None,
    ) -> None:
        self.settings = settings
        self.work = work
        key_file = None
        if settings.ledger and settings.trust:
            key_file = Path(settings.trust).with_name("ledger.key")
        self.ledger = Ledger(
            settings.ledger or work / "run.sqlite", key_file=key_file
        )
        self.trust = None
        if settings.trust:
            self.trust = Trust(Path(settings.trust), self.ledger)
        self.errors: dict[str, Callable[[int, str], object]] = {}
        self.forms: dict[tuple[str, str], Callable[..., Response]] = {}
        # Names, numbers and punctuation are not counted as characters of text.
        self.max_bytes = _BYTES_PER_CHARACTER * settings.max_characters + (
            1 << 20
        )
        self._models: list[Served] = []
        self._workers: dict[str, tuple[Served, Worker]] = {}
        self._in_shadow = ThreadPoolExecutor(max_workers=1)
        self._shadow_calls = threading.BoundedSemaphore(_SHADOW_CALLS)
        self._fault = ""
        announced_tasks = announced_tasks or announced()
        for entry in settings.model:
            task, name = find_task(entry, announced_tasks)
            model = task.load(
                name, cache=work / "windows.sqlite", dtype=settings.precision
            )
            is_named = entry not in (name, f"{task.task}={name}")
            self._add_model(model, is_named=is_named)
        self._add_routes()

    def _add_model(self, model: Served, *, is_named: bool) -> None:
        """Add a model; the second of a task is scored in shadow if it has a name."""
        first = next(iter(model.tasks))
        tasks = model.tasks
        repeated = sorted(tasks.keys() & self._workers.keys())
        if repeated and not is_named:
            other, _ = self._workers[repeated[0]]
            raise UserError(
                f"{other.name} and {model.name} both do {repeated[0]}; name one of them, or write "
                "--model now=MODEL --model next=MODEL to score the second in shadow"
            )
        if repeated:
            tasks = {first + _SHADOW: tasks[first]}
        else:
            self._models.append(model)
        for name, task in tasks.items():
            _MODEL.labels(name, model.name, model.model.fingerprint()).set(1)
            worker = Worker(task, _QUEUE.labels(name).set)
            self._workers[name] = (model, worker)
        _, worker = self._workers[next(iter(tasks))]
        test = partial(worker.score, seconds=self.settings.seconds)
        self._fault = self._fault or model.self_test(test)

    def score(
        self,
        task: str,
        records: Sequence[Record],
        *,
        card: str = "",
    ) -> OutputRows:
        """The output rows of records; risks are kept in the ledger.

        It blocks, so it must not be called in an event loop.

        Raises:
            HTTPException: 413 if there are too many records, columns or characters.
        """
        lists = [
            value
            for record in records
            for value in record.values()
            if isinstance(value, list)  # the notes of a stay
        ]
        n_records = max(len(records), sum(map(len, lists)))
        columns = {name for record in records for name in record}
        n_characters = sum(map(count_characters, records))
        longest = max(map(len, columns), default=0)
        for count, limit, unit in (
            (longest, MAX_NAME, "characters in the name of a column"),
            (n_records, MAX_RECORDS, "records"),
            (len(columns), MAX_RECORDS, "columns"),
            (n_characters, self.settings.max_characters, "characters"),
        ):
            if count > limit:
                raise HTTPException(
                    413, f"{count:,} {unit}; expected at most {limit:,}"
                )
        # The name joins the risks of several models.
        run = partial(self._run, records, card=card, call=uuid.uuid4().hex)
        rows = run(task)
        shadow = task + _SHADOW
        if shadow in self._workers and self._shadow_calls.acquire(
            blocking=False
        ):
            self._in_shadow.submit(self._run_in_shadow, partial(run, shadow))
        return rows

    def _run_in_shadow(self, run: Callable[[], object]) -> None:
        """Score with the next model; its risks are kept, and shown to nobody."""
        try:
            run()
        except Exception as error:  # noqa: BLE001  (the call was answered long ago)
            log.error("shadow", extra={"facts": where(error)})
        finally:
            self._shadow_calls.release()

    def _run(
        self,
        records: Sequence[Record],
        task: str,
        *,
        card: str,
        call: str,
    ) -> OutputRows:
        """Score with one model, count the rows, and keep the risks."""
        model, worker = self._workers[task]
        rows = worker.score(
            records, min(self.settings.seconds, seconds_left())
        )
        for row in rows:
            _ROWS.labels(task, row["status"]).inc()
        risks = [row for row in rows if "p_max" in row]
        if risks:
            chosen = worker.plan(records).chosen
            stay = chosen.get(STAY.name, STAY.name)
            fingerprint = model.model.fingerprint()
            self.ledger.served(
                task,
                fingerprint,
                risks,
                stay=stay,
                card=card,
                call=call,
            )
            _LAST_RISK.labels(task).set_to_current_time()
        return rows

    def _add_routes(self) -> None:
        self.app = FastAPI(
            title="domainbert",
            version=domainbert.__version__,
            docs_url=None,
            redoc_url=None,
        )
        self.app.router.route_class = BodyRoute
        for path, answer in (
            ("/health", _health),
            ("/ready", self._ready),
            ("/metrics", _metrics),
            ("/v1", self._about),
        ):
            self.app.get(path)(answer)
        for model in self._models:
            for name, task in model.tasks.items():
                about = (type(task).__doc__ or name).splitlines()[0]
                route = self.app.post(f"/v1/{name}", description=about)
                route(self._endpoint(name, model))
        pages = StaticFiles(
            packages=[("domainbert.service", "docs")], html=True
        )
        self.app.mount("/docs", pages)
        for model in self._models:
            model.routes(self, model)
        self.app.add_middleware(admission, self)
        self.app.add_middleware(
            CORSMiddleware,
            allow_origins=self.settings.cors or (),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-request-id"],
        )
        if self.trust is None:
            # A page of another site must not reach this machine by a name of that site (rebinding).
            hosts = [*LOOPBACK, "[::1]"]
            self.app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts)
        self.app.add_middleware(shell, self)
        for error_class in (
            HTTPException,
            RequestValidationError,
            UserError,
            TimeoutError,
            RecursionError,  # a value of too many levels
            UnicodeError,  # half a surrogate pair in the name of a column
        ):
            self.app.add_exception_handler(error_class, self._refuse)

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
                raise HTTPException(
                    400, "format: no such form; leave it out for JSON"
                )
            rows = self.score(task, body.records)
            return AsciiResponse({**about, "time": now(), "records": rows})

        return answer

    def _refuse(self, request: Request, error: Exception) -> AsciiResponse:
        is_unrouted = "route" not in request.scope
        if isinstance(error, HTTPException) and is_unrouted:
            # The files of the page, which are tried last, refuse a POST to any name with 405.
            error = HTTPException(404, "no such service; GET /v1 lists them")
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
            detail = error.errors()[0]
            name = ".".join(map(str, detail["loc"]))
            reason = f"{name}: {detail['msg'].removeprefix('Value error, ')}"
        body: object = {"error": reason, "status": status}
        for start, make_body in self.errors.items():
            if path.startswith(start):
                body = make_body(status, reason)
        return AsciiResponse(body, status, headers)

    async def faults(self) -> list[str]:
        """What keeps the service from answering: its models, and the keys of its clients."""
        faults = [self._fault] if self._fault else []
        if self.trust:
            faults += await self.trust.faults()
        return faults

    async def _ready(self) -> AsciiResponse:
        """Whether the models answer as their cards say."""
        body = {
            "ready": not self._fault,
            "models": [model.name for model in self._models],
            "why": self._fault,
        }
        return AsciiResponse(body, 503 if self._fault else 200)

    async def _about(self) -> dict[str, object]:
        """The tasks, what they read and give, and the limits."""
        tasks = {}
        for model in self._models:
            for name, task in model.tasks.items():
                columns = [column.name for column in task.columns]
                tasks[name] = {
                    "model": model.name,
                    "precision": model.model.precision,
                    "reads": columns,
                }
        limits = {
            "max_characters": self.settings.max_characters,
            "seconds": self.settings.seconds,
            "max_records": MAX_RECORDS,
        }
        return {
            "version": domainbert.__version__,
            "tasks": tasks,
            "limits": limits,
        }


async def _health() -> dict[str, str]:
    """Whether the process answers."""
    # In no thread: it answers while all of them wait for a model.
    return {"status": "ok"}


async def _metrics() -> Response:
    """Numbers for Prometheus."""
    registry = REGISTRY
    # With several workers, the numbers of all processes are shown.
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if folder:
        _forget_dead_workers(Path(folder))
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    return PlainTextResponse(generate_latest(registry))


def _forget_dead_workers(folder: Path) -> None:
    """Leave the calls and the queue of killed processes out of the numbers."""
    for file in folder.glob("gauge_live*_*.db"):
        process = int(file.stem.rpartition("_")[2])
        if not is_running(process):
            with suppress(FileNotFoundError):  # another worker was faster
                multiprocess.mark_process_dead(process, str(folder))


def application() -> FastAPI:
    """The application of one process of `domainbert serve`."""
    settings, work = _from_environment()
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    level = settings.log_level.upper()
    logging.basicConfig(handlers=[handler], level=level, force=True)
    app = Service(settings, work=work).app
    # Collecting garbage among all modules and models would stop every call for half a second.
    gc.collect()
    gc.freeze()
    return app


def faults() -> list[str]:
    """What keeps the service of `domainbert serve` from answering."""
    settings, work = _from_environment()
    return asyncio.run(Service(settings, work=work).faults())


def _from_environment() -> tuple[ServiceSettings, Path]:
    options, work = json.loads(os.environ[SETTINGS])
    return ServiceSettings(**options), Path(work)
