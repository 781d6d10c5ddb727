"""The application: `/v1/TASK` for every task of the models, their packages' own routes, health."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request  # noqa: TC002  (FastAPI reads it)
from starlette.responses import PlainTextResponse, Response

import domainbert
from domainbert.errors import UserError
from domainbert.service.batches import Worker, characters
from domainbert.service.http import Answer, RefusedError, Shell, parse_json, read_body
from domainbert.service.ledger import Ledger
from domainbert.service.served import Announced, Served, announced, find_kind
from domainbert.service.trust import Trust
from domainbert.settings import Count, Names, Positive, Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_BYTES = 12  # of a body, for each character that is allowed: "\\ud83d\\ude00" is one
_PORTS = {"http": 80, "https": 443}


class ServiceSettings(Settings):
    """What `domainbert serve` was asked for.

    Attributes:
        models: names, see `find_kind`.
        address: under which clients find the service, without a slash at its end.
        work: a private folder of this run.
        trust: TOML file of the clients; None answers anyone who can reach the address.
        cors: origins of pages that may call.
        fhir: hosts of FHIR servers that may be asked for notes.
        ledger: SQLite file for risks and feedback; None keeps none.
        cache: file of window scores; None keeps them as long as the service runs.
        report: where the models' report is, for the cards.
        max_characters: of the texts of a request.
        max_records: of a request; notes in a list count each.
        max_requests: at a time.
        seconds: for a request.
        workers: processes.
    """

    models: Names
    address: str = "http://127.0.0.1:8000"
    work: str
    trust: str | None = None
    cors: Names = ()
    fhir: Names = ()
    ledger: str | None = None
    cache: str | None = None
    report: str = ""
    max_characters: Count = 500_000
    max_records: Count = 1000
    max_requests: Count = 256
    seconds: Positive = 60.0
    workers: Count = 1


class Service:
    """The models of one process, and all that their routes need.

    Args:
        settings: what was asked for.
        kinds: what packages announce; by default the installed ones'.

    Attributes:
        app: the ASGI application.
        ledger: risks, feedback, used tokens.
        errors: first part of a path -> (status, why) -> body of an answer without a result.
    """

    def __init__(self, settings: ServiceSettings, kinds: Sequence[Announced] | None = None) -> None:
        from pathlib import Path

        self.settings = settings
        work = Path(settings.work)
        self.ledger = Ledger(settings.ledger or work / "run.sqlite", keep=bool(settings.ledger))
        self._trust = Trust(Path(settings.trust), self.ledger) if settings.trust else None
        self._pool = ThreadPoolExecutor(64, thread_name_prefix="request")
        self._metrics()
        self.errors: dict[str, Callable[[int, str], Any]] = {}
        self._open = {"/health", "/ready", "/metrics", "/docs", "/docs.js", "/openapi.json"}
        self.models: dict[str, Served] = {}
        self._workers: dict[str, Worker] = {}
        self.not_ready = ""
        self.app = FastAPI(
            title="domainbert",
            version=domainbert.__version__,
            description="Risks, entities and answers from clinical notes; no medical device.",
            docs_url=None,
            redoc_url=None,
            lifespan=self._lifespan,
        )
        self._load(kinds if kinds is not None else announced(), cache=work / "windows.sqlite")
        self._routes()
        self._middleware()

    def _load(self, kinds: Sequence[Announced], *, cache: Path) -> None:
        for asked in self.settings.models:
            kind, name = find_kind(asked, kinds)
            served = kind.load(name, cache=self.settings.cache or cache)
            for task in served.tasks:
                if task in self.models:
                    raise UserError(f"{self.models[task].name} and {name} both do {task}; name one")
                self.models[task] = served
                self._workers[task] = Worker(served.tasks[task], seen=self._batch_seen(task))
        for served in self._served():
            self.not_ready = self.not_ready or served.wrong(self.score)

    def _served(self) -> list[Served]:
        return list({id(served): served for served in self.models.values()}.values())

    def score(self, task: str, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The output rows of records; blocks, so never call it from the event loop."""
        return self._workers[task].score(records, seconds=self.settings.seconds)

    def check(self, records: Any) -> list[dict[str, Any]]:
        """The records of a request.

        Raises:
            RefusedError: 400 no records, 413 more than is allowed.
        """
        if not isinstance(records, list) or not all(isinstance(each, dict) for each in records):
            raise RefusedError(400, 'expected {"records": [{...}, ...]}')
        if not records:
            raise RefusedError(400, "records is empty; expected at least one")
        lists = sum(len(v) - 1 for each in records for v in each.values() if isinstance(v, list))
        self._refuse("records", len(records) + max(0, lists), self.settings.max_records)
        self._refuse("characters", sum(map(characters, records)), self.settings.max_characters)
        return records

    @staticmethod
    def _refuse(what: str, number: int, most: int) -> None:
        if number > most:
            raise RefusedError(413, f"the request has {number:,} {what}; expected at most {most:,}")

    def post(
        self,
        path: str,
        answer: Callable[[dict[str, Any], Request], Response],
        *,
        summary: str,
        body: dict[str, Any],
    ) -> None:
        """Add a route that takes JSON.

        Args:
            path: of the route.
            answer: (object, request) -> response; runs in a thread, may raise `RefusedError`.
            summary: for the page of the interface.
            body: JSON schema of the object.
        """
        most = _BYTES * self.settings.max_characters + (1 << 20)

        def work(raw: bytes, request: Request) -> Response:
            try:
                return answer(parse_json(raw), request)
            except StopIteration as error:  # asyncio cannot carry it, and would wait for ever
                raise RuntimeError from error

        async def handle(request: Request) -> Response:
            raw = await read_body(request, most=most, seconds=self.settings.seconds)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, work, raw, request)

        content = {"application/json": {"schema": body}}
        extra = {"requestBody": {"required": True, "content": content}}
        self.app.add_api_route(
            path, handle, methods=["POST"], summary=summary, openapi_extra=extra, name=path
        )

    def get(self, path: str, handle: Callable[..., Any], *, summary: str, open: bool) -> None:  # noqa: A002
        """Add a route that reads; `open` ones need no token."""
        self.app.add_api_route(path, handle, methods=["GET"], summary=summary, name=path)
        if open:
            self._open.add(path)

    def file(self, path: str, package: str, name: str) -> None:
        """Add a file that comes with a package."""
        content = resources.files(package).joinpath(name).read_bytes()
        kinds = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
        kind = kinds[name.rpartition(".")[2]]

        async def handle() -> Response:
            return Response(content, media_type=kind)

        self.app.add_api_route(path, handle, methods=["GET"], include_in_schema=False)
        self._open.add(path)

    def _routes(self) -> None:
        self.get("/health", self._health, summary="Whether the process answers", open=True)
        self.get(
            "/ready", self._ready, summary="Whether the models answer as they should", open=True
        )
        self.get("/metrics", self._numbers, summary="Numbers for Prometheus", open=True)
        self.get("/v1", self._about, summary="The tasks, what they read, the limits", open=False)
        self.get("/v1/models/{name}/card", self._card, summary="A model's card", open=False)
        self.file("/docs", "domainbert.service", "docs.html")
        self.file("/docs.js", "domainbert.service", "docs.js")
        for name, worker in self._workers.items():
            columns = {
                c.name: {"description": f"also: {', '.join(c.also)}"} for c in worker.task.columns
            }
            record = {"type": "object", "properties": columns}
            body = {
                "type": "object",
                "required": ["records"],
                "properties": {"records": {"type": "array", "items": record}},
            }
            summary = (type(worker.task).__doc__ or name).splitlines()[0]
            self.post(f"/v1/{name}", self._task_route(name), summary=summary, body=body)
        for served in self._served():
            if served.routes:
                served.routes(self, served)

    def _task_route(self, task: str) -> Callable[[dict[str, Any], Request], Response]:
        served = self.models[task]

        def answer(body: dict[str, Any], request: Request) -> Response:
            if unknown := sorted(body.keys() - {"records"}):
                raise RefusedError(400, f"{len(unknown)} unknown keys beside records")
            records = self.check(body.get("records"))
            asked = request.query_params.get("format", "json")
            if form := served.forms.get((task, asked)):
                return Answer(form.make(records, self.score), media_type=form.media_type)
            if asked != "json":
                known = ["json", *(name for of, name in served.forms if of == task)]
                raise RefusedError(400, f"format: expected {' or '.join(known)}")
            rows = self.score(task, records)
            self.ledger.served(task, served.fingerprint, [r for r in rows if r.get("stay_id")])
            about = {"task": task, "model": served.name, "fingerprint": served.fingerprint}
            return Answer(
                {**about, "version": domainbert.__version__, "time": now(), "records": rows}
            )

        return answer

    def _middleware(self) -> None:
        if self.settings.cors:
            self.app.add_middleware(
                CORSMiddleware,
                allow_origins=self.settings.cors,
                allow_methods=["GET", "POST"],
                allow_headers=["authorization", "content-type", "x-request-id"],
                expose_headers=["x-request-id"],
            )
        if self._trust is None:  # a page of another site must not reach us by a name of its own
            self.app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, "[::1]"])
        self.app.add_exception_handler(RefusedError, self._on_refused)
        self.app.add_exception_handler(UserError, self._on_user_error)
        self.app.add_exception_handler(TimeoutError, self._on_timeout)
        self.app.add_exception_handler(HTTPException, self._on_http_error)
        shell = {
            "trust": self._trust,
            "is_open": lambda path: path in self._open or path.startswith("/evidence/"),
            "failed": self._failed,
            "seen": self._request_seen,
            "most": self.settings.max_requests,
        }
        self.app.add_middleware(Shell, **shell)

    def _failed(self, path: str, status: int, why: str) -> Any:
        first = "/" + path.split("/")[1] if path.startswith("/") else path
        form = self.errors.get(first)
        return form(status, why) if form else {"error": why, "status": status}

    def _fail(self, request: Any, status: int, why: str, **headers: str) -> Response:
        return Answer(self._failed(request.url.path, status, why), status, headers)

    async def _on_refused(self, request: Request, error: Any) -> Response:
        return self._fail(request, error.status, error.why)

    async def _on_user_error(self, request: Request, error: Any) -> Response:
        return self._fail(request, 400, str(error))

    async def _on_timeout(self, request: Request, error: Any) -> Response:
        del error
        why = f"not done within {self.settings.seconds:g} seconds; send less, or again later"
        return self._fail(request, 503, why, **{"retry-after": "5"})

    async def _on_http_error(self, request: Request, error: Any) -> Response:
        return self._fail(request, error.status_code, str(error.detail), **(error.headers or {}))

    @asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        del app
        yield
        self.close()

    def close(self) -> None:
        """End the threads, after what they were asked for."""
        self._pool.shutdown()
        for worker in self._workers.values():
            worker.close()

    # --- what operators ask

    async def _health(self) -> Answer:
        return Answer({"status": "ok"})

    async def _ready(self) -> Answer:
        names = [served.name for served in self._served()]
        status = "not ready" if self.not_ready else "ready"
        return Answer(
            {"status": status, "models": names, "why": self.not_ready},
            503 if self.not_ready else 200,
        )

    async def _about(self) -> Answer:
        tasks = {
            name: {
                "model": self.models[name].name,
                "fingerprint": self.models[name].fingerprint,
                "reads": [column.name for column in worker.task.columns],
                "gives": [*worker.task.output.names, "status", "reason"],
            }
            for name, worker in self._workers.items()
        }
        limits = ("max_characters", "max_records", "max_requests", "seconds")
        return Answer(
            {
                "version": domainbert.__version__,
                "tasks": tasks,
                "limits": {name: getattr(self.settings, name) for name in limits},
            }
        )

    async def _card(self, name: str) -> Response:
        found = next((served for served in self._served() if served.name == name), None)
        if found is None:
            raise RefusedError(404, "no model of this name is served here")
        return PlainTextResponse(found.card, media_type="text/markdown")

    def _metrics(self) -> None:
        self._registry = CollectorRegistry()
        where: dict[str, Any] = {"registry": self._registry}
        self._requests = Counter(
            "domainbert_requests_total", "Requests answered", ["route", "method", "status"], **where
        )
        self._seconds = Histogram(
            "domainbert_request_seconds", "Time to answer", ["route"], **where
        )
        self._items = Counter("domainbert_items_total", "Items scored", ["task"], **where)
        self._batches = Histogram("domainbert_batch_seconds", "Time of a batch", ["task"], **where)

    def _request_seen(self, route: str, method: str, status: int, seconds: float) -> None:
        self._requests.labels(route, method, status).inc()
        self._seconds.labels(route).observe(seconds)

    def _batch_seen(self, task: str) -> Callable[[int, float], None]:
        items, batches = self._items.labels(task), self._batches.labels(task)

        def seen(count: int, seconds: float) -> None:
            items.inc(count)
            batches.observe(seconds)

        return seen

    async def _numbers(self) -> Response:
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # all workers', not this one's
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
