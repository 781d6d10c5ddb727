"""HTTP around the tasks: bounded bodies, deadlines, ids of requests, and logs."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import time
import traceback
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import httpx
from fastapi.routing import APIRoute
from prometheus_client import Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from domainbert.service.commands import ServiceSettings

log = logging.getLogger(__name__)
# These libraries log addresses, which hold the ids of stays.
for name in ("httpx", "httpcore"):
    logging.getLogger(name).setLevel(logging.WARNING)
POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; form-action 'none'"
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
# Paths that need a token. The other paths hold no data of a person.
DATA_PATHS = ("/v1", "/cds-services")
JSON_TYPES = ("application/json", "application/fhir+json")
_READ_SECONDS = 30.0  # for each read from another server
MAX_RECORDS = 1000  # of a request, each note of a stay counts; and columns
MAX_NAME = 200  # characters of the name of a column
MAX_VALUES = 100_000  # lists and objects of a body
# One thread: while it reads a body, no other code runs in this process.
_JSON_THREAD = ThreadPoolExecutor(max_workers=1)
_SECONDS = Histogram(
    "domainbert_request_seconds",
    "Time to answer",
    ["route", "status"],
)
_CALLS = Gauge(
    "domainbert_calls", "Calls in progress", multiprocess_mode="livesum"
)
_request: ContextVar[str] = ContextVar("request", default="")
_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


def seconds_left() -> float:
    """Seconds until the deadline of the call that is being answered; infinite outside of a call.

    Raises:
        TimeoutError: the deadline has passed.
    """
    seconds = _deadline.get() - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


@cache
def _certificates() -> ssl.SSLContext:
    """The certificates that this machine trusts; reading them takes long."""
    return ssl.create_default_context()


def http_client(*, proxy: str | None = None) -> httpx.AsyncClient:
    """A client that uses only this proxy, whatever the environment says, and no redirects.

    Its time-out is for each read: use `asyncio.timeout` around it for the whole.
    """
    return httpx.AsyncClient(
        proxy=proxy or None,
        trust_env=False,
        verify=_certificates(),
        timeout=_READ_SECONDS,
    )


async def fetch_json(
    client: httpx.AsyncClient, url: str, *, max_bytes: int, **headers: str
) -> Any:
    """The JSON document at an address.

    Raises:
        ValueError: another status than 200, more than `max_bytes`, or no JSON.
        httpx.HTTPError: no response.
    """
    # A compressed response could unpack to gigabytes.
    headers["Accept-Encoding"] = "identity"
    body = bytearray()
    async with client.stream("GET", url, headers=headers) as response:
        if response.status_code != httpx.codes.OK:
            raise ValueError(str(response.status_code))
        async for part in response.aiter_raw():
            body += part
            if len(body) > max_bytes:
                raise ValueError("too long")
    return json.loads(body)


class AsciiResponse(JSONResponse):
    """A JSON response, in ASCII because lone surrogates have no UTF-8 form."""

    def render(self, content: object) -> bytes:
        """The body."""
        return json.dumps(
            content, allow_nan=False, separators=(",", ":")
        ).encode()


async def read_body(
    request: Request, *, max_bytes: int, seconds: float
) -> bytes:
    """The body of a request.

    It is read to its end in any case, since a client that is still sending reads no response.

    Args:
        request: the request.
        max_bytes: of the body.
        seconds: for the whole body.

    Raises:
        HTTPException: 408 if the body is too slow, 413 if it is too long.
        ClientDisconnect: the client has gone.
    """
    size = 0
    parts = []
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size <= max_bytes:
                    parts.append(part)
    except TimeoutError:
        raise HTTPException(
            408,
            f"the body did not arrive within {seconds:g} s",
        ) from None
    if size > max_bytes:
        raise HTTPException(
            413,
            f"the body has {size:,} bytes; expected at most {max_bytes:,}",
        )
    return b"".join(parts)


class TokenChecker(Protocol):
    """What knows the clients, see `Trust`."""

    async def admit(self, authorization: str, path: str) -> str:
        """The client of a token; an HTTPException for a token that is refused."""


class Door(Protocol):
    """What the layers around the routes need of a `Service`."""

    @property
    def settings(self) -> ServiceSettings:
        """The options of `domainbert serve`."""

    @property
    def trust(self) -> TokenChecker | None:
        """The clients whose tokens are admitted; None to admit all."""

    @property
    def max_bytes(self) -> int:
        """Of a body."""

    def refusal(self, path: str, error: Exception) -> Response:
        """The response to a request that is refused."""


def shell(app: ASGIApp, service: Door) -> ASGIApp:
    """The outermost layer of a `Service`: request ids, deadlines, headers, log lines, metrics."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 499  # until a response starts: the client has gone
        request_id = _request_id(scope)
        facts: dict[str, object] = {}
        scope["facts"] = facts
        _request.set(request_id)
        _deadline.set(time.monotonic() + service.settings.seconds)

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update({**HEADERS, "x-request-id": request_id})
            await send(message)

        try:
            with _CALLS.track_inprogress():
                await app(scope, receive, send_with_headers)
        except ClientDisconnect:
            pass
        # The fault of a request must not end the worker.
        except Exception as error:  # noqa: BLE001
            refusal = _as_refusal(error, request_id)
            if status == 499:
                response = service.refusal(scope["path"], refusal)
                await response(scope, receive, send_with_headers)
        seconds = time.perf_counter() - started
        # The pattern of the route, not the path: a path may hold an id.
        route = getattr(scope.get("route"), "path", "none")
        facts |= {
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 1),
        }
        log.info("request", extra={"facts": facts})
        _SECONDS.labels(route, status).observe(seconds)

    return handle


def _as_refusal(error: Exception, request_id: str) -> HTTPException:
    """The exception to answer with; a bug is logged, without its message."""
    if isinstance(error, HTTPException):
        return error
    log.error("internal error", extra={"facts": where(error)})
    return HTTPException(
        500, f"internal error; report the request id {request_id}"
    )


def admission(app: ASGIApp, service: Door) -> ASGIApp:
    """The layer inside CORS that checks tokens and bodies, so that a page can read refusals."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(DATA_PATHS):
            await app(scope, receive, send)
            return
        try:
            receive = await _admitted(service, scope, receive)
        except HTTPException as error:
            response = service.refusal(scope["path"], error)
            await response(scope, receive, send)
        else:
            await app(scope, receive, send)

    return handle


async def _admitted(service: Door, scope: Scope, receive: Receive) -> Receive:
    """Check the token and the content type, read the body, and return a `receive` that has it."""
    request = Request(scope, receive)
    headers = request.headers
    seconds = service.settings.seconds
    try:
        if service.trust:
            token = headers.get("authorization", "")
            scope["facts"]["client"] = await service.trust.admit(
                token, scope["path"]
            )
        media_type = (
            headers.get("content-type", "").partition(";")[0].strip().lower()
        )
        if request.method == "POST" and media_type not in JSON_TYPES:
            raise HTTPException(415, "expected Content-Type: application/json")
    except HTTPException:
        with suppress(HTTPException):
            await read_body(request, max_bytes=0, seconds=seconds)
        raise
    body = await read_body(
        request,
        max_bytes=service.max_bytes,
        seconds=seconds,
    )

    async def receive_body() -> Message:
        return {"type": "http.request", "body": body}

    return receive_body


class BodyRequest(Request):
    """A request whose JSON is read once, and not in the event loop."""

    async def json(self) -> object:
        """The body; see `read_json`."""
        body = await self.body()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_JSON_THREAD, read_json, body)


class BodyRoute(APIRoute):
    """A route that gives FastAPI a `BodyRequest`."""

    def get_route_handler(
        self,
    ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route."""
        handle = super().get_route_handler()

        async def handle_body(request: Request) -> Response:
            return await handle(BodyRequest(request.scope, request.receive))

        return handle_body


def read_json(body: bytes) -> object:
    """The JSON of a body.

    Raises:
        HTTPException: 413 if it has too many lists and objects, 400 if an object has a key twice.
        ValueError: no JSON.
    """
    # Brackets in texts count too; a note has few.
    n_values = body.count(b"[") + body.count(b"{")
    if n_values > MAX_VALUES:
        raise HTTPException(
            413,
            f"the body has {n_values:,} lists and objects; expected at most {MAX_VALUES:,}",
        )
    return json.loads(body, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object without repeated keys: JSON readers silently drop one of the values."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise HTTPException(
            400,
            "an object in the body has a key twice; expected each key once",
        )
    return content


def _request_id(scope: Scope) -> str:
    """The client's id if it is a UUID, which cannot be a patient's id; else a new one."""
    with suppress(ValueError):
        return str(uuid.UUID(Headers(scope=scope).get("x-request-id", "")))
    return str(uuid.uuid4())


def where(error: BaseException) -> dict[str, object]:
    """Type and position of an exception, without its message, which may quote a note."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    lines = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames]
    return {"error": type(error).__name__, "at": lines}


class JsonLines(logging.Formatter):
    """Log records as JSON lines; exceptions are given by type and position only."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        if _request.get():
            line["request"] = _request.get()
        line |= getattr(record, "facts", {})
        if record.exc_info and record.exc_info[1]:
            line |= where(record.exc_info[1])
        return json.dumps(line)
