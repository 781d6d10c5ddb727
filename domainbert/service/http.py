"""HTTP around the tasks: ids of requests, limited bodies, response headers, and logs."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
import traceback
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)
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
_SECONDS = Histogram(
    "domainbert_request_seconds", "Time to answer", ["route", "status"]
)


class AsciiResponse(JSONResponse):
    """A JSON response, in ASCII because lone surrogates have no UTF-8 form."""

    def render(self, content: object) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


async def read_body(receive: Receive, *, most: int, seconds: float) -> bytes:
    """The body of a request.

    It is read to its end in any case, since a client that is still sending reads no response.

    Args:
        receive: of ASGI.
        most: maximum bytes.
        seconds: for the whole body.

    Raises:
        HTTPException: 408 if the body is too slow, 413 if it is too long.
    """
    size = 0
    parts: list[bytes] = []
    has_more = True
    try:
        async with asyncio.timeout(seconds):
            while has_more:
                message = await receive()
                part = message.get("body", b"")
                has_more = message.get("more_body", False)
                size += len(part)
                if size <= most:
                    parts.append(part)
    except TimeoutError:
        raise HTTPException(
            408, f"the body did not arrive within {seconds:g} s"
        ) from None
    if size > most:
        raise HTTPException(
            413, f"the body has {size:,} bytes; expected at most {most:,}"
        )
    return b"".join(parts)


def shell(app: ASGIApp, service: Any) -> ASGIApp:
    """The outermost layer of a `Service`: request ids, tokens, headers, log lines, metrics."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 499  # until a response starts: the client has gone
        request_id = _request_id(scope)
        facts: dict[str, object] = {"request": request_id}

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
            if scope["path"].startswith(DATA_PATHS) and scope["method"] != "OPTIONS":
                receive = await _admitted(service, scope, receive, facts)
            await app(scope, receive, send_with_headers)
        # The fault of a request must not end the worker.
        except Exception as error:  # noqa: BLE001
            refusal = _as_refusal(error, facts)
            if status == 499:
                response = service.refusal(scope["path"], refusal)
                await response(scope, receive, send_with_headers)
        seconds = time.perf_counter() - started
        # The pattern of the route, not the path: a path may hold an id.
        route = getattr(scope.get("route"), "path", "none")
        facts |= {"route": route, "status": status, "ms": round(1000 * seconds, 1)}
        log.info("request", extra={"facts": facts})
        _SECONDS.labels(route, status).observe(seconds)

    return handle


def _as_refusal(error: Exception, facts: dict[str, object]) -> HTTPException:
    """The exception to answer with; a bug is logged, without its message."""
    if isinstance(error, HTTPException):
        return error
    log.error("internal error", extra={"facts": facts | where(error)})
    return HTTPException(
        500, f"internal error; report the request id {facts['request']}"
    )


async def _admitted(
    service: Any, scope: Scope, receive: Receive, facts: dict[str, object]
) -> Receive:
    """Check the token, the content type and the length; return what then gives the body."""
    seconds = service.settings.seconds
    headers = Headers(scope=scope)
    try:
        if service.trust:
            token = headers.get("authorization", "")
            facts["client"] = await asyncio.to_thread(
                service.trust.check, token, scope["path"]
            )
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and kind not in JSON_TYPES:
            raise HTTPException(415, "expected Content-Type: application/json")
    except HTTPException:
        with suppress(HTTPException):
            await read_body(receive, most=0, seconds=seconds)
        raise
    body = await read_body(receive, most=service.most_bytes, seconds=seconds)
    # Malformed JSON is refused later, by FastAPI, with its position.
    with suppress(ValueError, RecursionError):
        json.loads(body, object_pairs_hook=_refuse_repeated_keys)

    async def receive_body() -> Message:
        return {"type": "http.request", "body": body}

    return receive_body


def _refuse_repeated_keys(pairs: list[tuple[str, object]]) -> None:
    """Of an object that has a key twice, JSON readers silently drop one value."""
    if len(dict(pairs)) < len(pairs):
        raise HTTPException(
            400, "an object in the body has a key twice; expected each key once"
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
        line |= getattr(record, "facts", {})
        if record.exc_info and record.exc_info[1]:
            line |= where(record.exc_info[1])
        return json.dumps(line)
