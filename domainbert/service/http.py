"""HTTP around the tasks: bodies with limits, ids of requests, tokens, logs without text."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
import traceback
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from domainbert.service.trust import NotTrustedError

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
DATA = ("/v1", "/cds-services")  # addresses that need a token; the others tell nothing of anyone
_DRAIN, _DRAIN_SECONDS = 256 << 20, 10.0  # of a refused body, so that its sender reads the answer
LOOPBACK = ("127.0.0.1", "localhost", "::1")
STOPPING = threading.Event()
GONE = 499  # in logs: the client hung up


class Answer(Response):
    """JSON, in ASCII: half a surrogate pair has no other form."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


async def read_body(receive: Receive, *, kind: str, most: int, seconds: float) -> bytes:
    """The body of a request with JSON, whose `Content-Type` is `kind`.

    Raises:
        HTTPException: 408 too slow, 413 too long, 415 not JSON.
        ClientDisconnect: the client hung up.
    """
    chunks, size, more = [], 0, True
    try:
        async with asyncio.timeout(seconds):
            while more and size <= _DRAIN:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                size += len(chunk := message.get("body", b""))
                more = message.get("more_body", False)
                if size <= most:
                    chunks.append(chunk)
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {seconds:g} s") from None
    if kind.partition(";")[0].strip().lower() not in ("application/json", "application/fhir+json"):
        raise HTTPException(415, "expected Content-Type: application/json")
    if size > most:
        raise HTTPException(413, f"the body has {size:,} bytes; expected at most {most:,}")
    return b"".join(chunks)


def parse_json(raw: bytes) -> dict[str, Any]:
    """The object of a body; an `HTTPException` where there is none, without its text."""
    try:
        found = from_json(raw, allow_inf_nan=False)
    except ValueError as error:  # says what was expected, and the line and column
        raise HTTPException(400, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise HTTPException(400, "the body: expected a JSON object")
    return found


class Shell:
    """What surrounds every request of a `Service`: id, token, headers, a log line, metrics."""

    def __init__(self, app: ASGIApp, service: Any) -> None:
        self._app, self._service, self._now = app, service, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, status, headers = time.perf_counter(), 0, dict(scope["headers"])
        facts: dict[str, Any] = {"request": _request_id(headers.get(b"x-request-id", b""))}

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                mine = {**HEADERS, "x-request-id": facts["request"]}
                mine |= {"connection": "close"} if STOPPING.is_set() else {}
                message["headers"] += [(k.encode(), v.encode()) for k, v in mine.items()]
            await send(message)

        self._now += 1
        try:
            try:
                await self._admit(
                    scope, headers.get(b"authorization", b"").decode("latin-1"), facts
                )
                await self._app(scope, receive, sending)
            except HTTPException as refused:
                with suppress(HTTPException):  # its sender has to read the answer
                    await read_body(receive, kind="", most=0, seconds=_DRAIN_SECONDS)
                body = self._service.failed(scope["path"], refused.status_code, refused.detail)
                answer = Answer(body, refused.status_code, refused.headers)
                await answer(scope, receive, sending)
        except ClientDisconnect:
            status = status or GONE
        except Exception as error:  # noqa: BLE001  (a request's fault must not end the worker)
            log.error("internal error", extra={"facts": facts | where(error)})
            if not status:
                why = f"internal error; report the request id {facts['request']}"
                await Answer(self._service.failed(scope["path"], 500, why), 500)(
                    scope, receive, sending
                )
        finally:
            self._now -= 1
            seconds = time.perf_counter() - started
            # The pattern of the route, not the path: a path may hold an id.
            facts |= {
                "route": getattr(scope.get("route"), "path", "none"),
                "status": status or GONE,
            }
            log.info("request", extra={"facts": facts | {"ms": round(1000 * seconds, 1)}})
            self._service.seconds.labels(facts["route"], facts["status"]).observe(seconds)

    async def _admit(self, scope: Scope, authorization: str, facts: dict[str, Any]) -> None:
        if not scope["path"].startswith(DATA) or scope["method"] == "OPTIONS":
            return
        if self._now > (most := self._service.settings.max_requests):
            why = f"{most} requests are being answered; try again soon"
            raise HTTPException(429, why, {"retry-after": "1"})
        if trust := self._service.trust:
            try:
                check = asyncio.to_thread(trust.check, authorization, scope["path"])
                facts["client"] = await check
            except NotTrustedError as error:
                raise HTTPException(401, str(error), {"www-authenticate": "Bearer"}) from None


def _request_id(given: bytes) -> str:
    """The client's own where it is a UUID, which cannot be a patient's id."""
    with suppress(ValueError):
        return str(uuid.UUID(given.decode("latin-1")))
    return str(uuid.uuid4())


def where(error: BaseException) -> dict[str, Any]:
    """Type and place of an exception; its message may quote a note."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames]
    return {"error": type(error).__name__, "at": places}


class JsonLines(logging.Formatter):
    """Log records as JSON lines; of an exception only its type and place."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        error = record.exc_info[1] if record.exc_info else None
        return json.dumps(line | getattr(record, "facts", {}) | (where(error) if error else {}))


def log_as_json(level: str) -> None:
    """Send all logs to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(level.upper())


def stop_gently(seconds: float) -> None:
    """Make uvicorn answer, at its end, what it accepted and has not read yet."""
    import uvicorn

    plain = uvicorn.Server.shutdown

    async def shutdown(server: uvicorn.Server, sockets: Any = None) -> None:
        STOPPING.set()
        for listening in server.servers:
            listening.close()
        await asyncio.sleep(seconds)
        await plain(server, sockets)

    uvicorn.Server.shutdown = shutdown  # type: ignore[method-assign]
