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

from starlette.exceptions import HTTPException
from starlette.responses import Response

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
JSON = (b"application/json", b"application/fhir+json")
_DRAIN = 256 << 20  # bytes of a refused body that are read
LOOPBACK = ("127.0.0.1", "localhost", "::1")
STOPPING = threading.Event()


class Answer(Response):
    """JSON, in ASCII: half a surrogate pair has no other form."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def limited(receive: Receive, *, most: int, seconds: float) -> Receive:
    """The body of a request, or an `HTTPException`: 408 too slow, 413 too long."""
    size, until = 0, time.monotonic() + seconds

    async def receiving() -> Message:
        nonlocal size
        try:
            message = await asyncio.wait_for(receive(), until - time.monotonic())
            size += len(message.get("body", b""))
            while most < size < _DRAIN and message.get("more_body"):  # so that it reads the answer
                message = await asyncio.wait_for(receive(), until - time.monotonic())
                size += len(message.get("body", b""))
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {seconds:g} s") from None
        if size > most:
            raise HTTPException(413, f"the body has {size:,} bytes; expected at most {most:,}")
        return message

    return receiving


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
                if scope["path"].startswith(DATA) and scope["method"] != "OPTIONS":
                    most, longest = self._service.most_bytes, self._service.settings.seconds
                    receive = limited(receive, most=most, seconds=longest)
                    await self._admit(scope, headers, facts)
                await self._app(scope, receive, sending)
            except HTTPException as refused:
                with suppress(HTTPException):  # its sender has to read the answer
                    while (await receive()).get("more_body"):
                        pass
                body = self._service.failed(scope["path"], refused.status_code, refused.detail)
                answer = Answer(body, refused.status_code, refused.headers)
                await answer(scope, receive, sending)
        except Exception as error:  # noqa: BLE001  (a request's fault must not end the worker)
            log.error("internal error", extra={"facts": facts | where(error)})
            if not status:
                why = f"internal error; report the request id {facts['request']}"
                answer = Answer(self._service.failed(scope["path"], 500, why), 500)
                await answer(scope, receive, sending)
        finally:
            self._now -= 1
            seconds = time.perf_counter() - started
            # The pattern of the route, not the path: a path may hold an id.
            route, status = getattr(scope.get("route"), "path", "none"), status or 499
            facts |= {"route": route, "status": status, "ms": round(1000 * seconds, 1)}
            log.info("request", extra={"facts": facts})
            self._service.seconds.labels(route, status).observe(seconds)

    async def _admit(self, scope: Scope, headers: dict[bytes, bytes], facts: dict) -> None:
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if self._now > (most := self._service.settings.max_requests):
            why = f"{most} requests are being answered; try again soon"
            raise HTTPException(429, why, {"retry-after": "1"})
        if trust := self._service.trust:
            given = headers.get(b"authorization", b"").decode("latin-1")
            facts["client"] = await asyncio.to_thread(trust.check, given, scope["path"])
        if scope["method"] == "POST" and kind not in JSON:
            raise HTTPException(415, "expected Content-Type: application/json")


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

    uvicorn.Server.shutdown = shutdown  # type: ignore[assignment, method-assign]
