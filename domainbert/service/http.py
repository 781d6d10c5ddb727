"""HTTP around the tasks: bounded connections and bodies, deadlines, ids of requests, and logs."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
import time
import traceback
import uuid
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from prometheus_client import Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
STOPPING = threading.Event()
HEAD_SECONDS = 10.0  # for the headers of a request, and for a TLS handshake
REFUSED_SECONDS = 5.0  # for the body of a call that is refused
WRITE_SECONDS = 30.0  # that a client may leave a response unread
MAX_RECORDS = 1000  # of a request, each note of a stay counts; and columns
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


class BoundedConnection(H11Protocol):
    """A connection whose client must send a request in time and read the response.

    Of the connections that wait for bytes of their client, only so many are kept, from one address
    and in total. A new one replaces the oldest, one without a request before one with half of it:
    silent clients never keep others out.
    """

    head_seconds = HEAD_SECONDS
    write_seconds = WRITE_SECONDS
    waiting_per_address = 128  # connections that owe us bytes, of one client
    waiting = 512  # and of all
    _timer: asyncio.TimerHandle | None = None
    opened_at = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether there is no request in progress."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time for the first request."""
        super().connection_made(transport)
        self.opened_at = self.loop.time()
        self._start(self.head_seconds)
        connections: set[Any] = self.connections - {self}
        waiting = [peer for peer in connections if peer.is_waiting]
        neighbours = [peer for peer in waiting if peer.address == self.address]
        for peers, limit in (
            (neighbours, self.waiting_per_address),
            (waiting, self.waiting),
        ):
            if len(peers) >= limit:
                oldest = min(
                    peers, key=lambda peer: (not peer.is_idle, peer.opened_at)
                )
                oldest.transport.abort()

    @property
    def address(self) -> str:
        """The client's address, without its port."""
        return self.client[0] if self.client else ""

    @property
    def is_waiting(self) -> bool:
        """Whether the next step is the client's: a request, or the rest of its body."""
        is_open = not self.transport.is_closing()
        return is_open and (self.is_idle or self.cycle.more_body)

    def data_received(self, data: bytes) -> None:
        """Read a piece of a request; the time for its head does not start anew."""
        was_idle = self.is_idle
        super().data_received(data)
        if was_idle and not self.is_idle:
            self._stop()
        elif self.is_idle and self._timer is None:
            self._start(self.head_seconds)

    def pause_writing(self) -> None:
        """Wait only so long for a client that does not read."""
        super().pause_writing()
        self._start(self.write_seconds)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._stop()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection without a further request, also if its last response is unread."""
        super().timeout_keep_alive_handler()
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop()
        super().connection_lost(exc)

    def _start(self, seconds: float) -> None:
        self._stop()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None


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
        timeout=WRITE_SECONDS,
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


def shell(app: ASGIApp, service: Any) -> ASGIApp:
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
                if STOPPING.is_set():
                    headers["connection"] = "close"
            await send(message)

        try:
            # A proxy may see another end of the body, and a second request in it.
            if set(Headers(scope=scope)) >= {
                "content-length",
                "transfer-encoding",
            }:
                raise HTTPException(
                    400,
                    "expected Content-Length or Transfer-Encoding, not both",
                    {"connection": "close"},
                )
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


def admission(app: ASGIApp, service: Any, *, max_calls: int = 500) -> ASGIApp:
    """The layer inside CORS that checks tokens and bodies, so that a page can read refusals.

    It answers `max_calls` at a time.
    """
    n_calls = 0

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal n_calls
        if scope["type"] != "http" or not scope["path"].startswith(DATA_PATHS):
            await app(scope, receive, send)
            return
        n_calls += 1
        try:
            if n_calls > max_calls:
                raise HTTPException(
                    503, "too many calls", {"retry-after": "5"}
                )
            receive = await _admitted(service, scope, receive)
        except HTTPException as error:
            response = service.refusal(scope["path"], error)
            await response(scope, receive, send)
        else:
            await app(scope, receive, send)
        finally:
            n_calls -= 1

    return handle


async def _admitted(service: Any, scope: Scope, receive: Receive) -> Receive:
    """Check the token and the content type, read the body, and return a `receive` that has it."""
    request = Request(scope, receive)
    headers = request.headers
    try:
        if service.trust:
            token = headers.get("authorization", "")
            scope["facts"]["client"] = await service.trust.admit(
                token, scope["path"]
            )
        kind = (
            headers.get("content-type", "").partition(";")[0].strip().lower()
        )
        if request.method == "POST" and kind not in JSON_TYPES:
            raise HTTPException(415, "expected Content-Type: application/json")
    except HTTPException:
        with suppress(HTTPException):
            await read_body(request, max_bytes=0, seconds=REFUSED_SECONDS)
        raise
    body = await read_body(
        request,
        max_bytes=service.max_bytes,
        seconds=service.settings.seconds,
    )
    # In a thread: a million objects take seconds, and /health answers meanwhile. Malformed JSON
    # is refused later, by FastAPI, with its position.
    with suppress(ValueError, RecursionError):
        await asyncio.to_thread(
            json.loads, body, object_pairs_hook=_refuse_repeated_keys
        )

    async def receive_body() -> Message:
        return {"type": "http.request", "body": body}

    return receive_body


def _refuse_repeated_keys(pairs: list[tuple[str, object]]) -> None:
    """Refuse an object that has a key twice: JSON readers silently drop one of the values."""
    if len(dict(pairs)) < len(pairs):
        raise HTTPException(
            400,
            "an object in the body has a key twice; expected each key once",
        )


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
