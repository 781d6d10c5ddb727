"""HTTP around the tasks: bodies with limits, request ids, tokens, logs and metrics without text."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sys
import time
import traceback
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from domainbert.service.trust import NotTrustedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from domainbert.service.trust import Trust

log = logging.getLogger(__name__)

JSON = ("application/json", "application/fhir+json")
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_DRAIN = 256 << 20  # bytes of a refused body that are read and dropped, so that it gets its answer
_DRAIN_SECONDS = 10.0
GONE = 499  # the client hung up: nobody gets this status, the log has it


class RefusedError(Exception):
    """A request that is not answered: the status, and why in words without its text."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Answer(Response):
    """JSON in which a number that is none is null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(_finite(content), allow_nan=False, separators=(",", ":")).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


async def read_body(request: Request, *, most: int, seconds: float) -> bytes:
    """The body of a request with JSON.

    Raises:
        RefusedError: 408 too slow, 413 too long, 415 not JSON.
        ClientDisconnect: the client hung up.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in JSON:
        raise RefusedError(415, "expected Content-Type: application/json")
    chunks, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= most:
                    chunks.append(chunk)
                elif size > _DRAIN:
                    break
    except TimeoutError:
        raise RefusedError(408, f"the body did not arrive within {seconds:g} seconds") from None
    if size > most:
        raise RefusedError(413, f"the body has {size:,} bytes; expected at most {most:,}")
    return b"".join(chunks)


def parse_json(raw: bytes) -> dict[str, Any]:
    """The object of a body.

    Raises:
        RefusedError: 400, with the place.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(400, f"the body is not UTF-8 (byte {error.start:,})") from None
    try:
        found = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno:,}, column {error.colno:,}"
        raise RefusedError(400, f"the body is not JSON ({place})") from None
    except (RecursionError, ValueError) as error:
        known = isinstance(error, _OddError)
        why = str(error) if known else "nested too deeply, or a number too long"
        raise RefusedError(400, f"the body is not JSON that can be read: {why}") from None
    if not isinstance(found, dict):
        raise RefusedError(400, "expected a JSON object")
    return found


class _OddError(ValueError):
    """JSON that another reader would take differently."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _OddError("an object has a key twice")
    return values


def _constant(name: str) -> None:
    raise _OddError(f"{name} is no number of JSON")


class Shell:
    """What surrounds every request: its id, the client's token, headers, a log line, metrics.

    Args:
        app: the application.
        trust: checks tokens; None where any caller is answered.
        is_open: path -> whether it needs no token.
        failed: (path, status, why) -> the body of an answer without a result.
        seen: called with (route, method, status, seconds).
        most: requests at a time.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        trust: Trust | None,
        is_open: Callable[[str], bool],
        failed: Callable[[str, int, str], Any],
        seen: Callable[[str, str, int, float], None],
        most: int,
    ) -> None:
        self._app, self._trust, self._is_open = app, trust, is_open
        self._failed, self._seen, self._most, self._now = failed, seen, most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, name, status = time.perf_counter(), _request_id(scope), 0
        scope["request_id"] = name

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                mine = {**HEADERS, "x-request-id": name}
                there = {key.lower() for key, _ in message["headers"]}
                new = [(k.encode(), v.encode()) for k, v in mine.items() if k.encode() not in there]
                message["headers"] = [*message["headers"], *new]
            await send(message)

        self._now += 1
        try:
            refused = await self._refused(scope)
            if refused is None:
                await self._app(scope, receive, sending)
            else:
                await _drain(receive)
                body = self._failed(scope["path"], refused.status, refused.why)
                extra = {401: {"www-authenticate": "Bearer"}, 429: {"retry-after": "1"}}
                answer = Answer(body, refused.status, extra.get(refused.status))
                await answer(scope, receive, sending)
        except ClientDisconnect:
            status = status or GONE
        except Exception as error:  # noqa: BLE001  (a request's fault must not end the worker)
            log.error("internal error", extra={"facts": {"request": name, **where(error)}})
            if not status:
                why = f"internal error; report the request id {name}"
                await Answer(self._failed(scope["path"], 500, why), 500)(scope, receive, sending)
        finally:
            self._now -= 1
            self._finish(scope, name, status or GONE, time.perf_counter() - started)

    async def _refused(self, scope: Scope) -> RefusedError | None:
        if self._is_open(scope["path"]):
            return None
        if self._now > self._most:
            return RefusedError(429, f"{self._most} requests are being answered; try again soon")
        if self._trust is None or scope["method"] == "OPTIONS":
            return None
        headers = dict(scope["headers"])
        given = headers.get(b"authorization", b"").decode("latin-1")
        try:
            client = await asyncio.to_thread(self._trust.check, given, scope["path"])
        except NotTrustedError as error:
            return RefusedError(401, str(error))
        scope["client_issuer"] = client
        return None

    def _finish(self, scope: Scope, name: str, status: int, seconds: float) -> None:
        # The pattern of the route, not the path: a path may hold an id.
        route = getattr(scope.get("route"), "path", "none")
        facts = {
            "request": name,
            "method": scope["method"] if scope["method"].isalpha() else "odd",
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 1),
            **({"client": scope["client_issuer"]} if "client_issuer" in scope else {}),
        }
        log.info("request", extra={"facts": facts})
        self._seen(route, facts["method"], status, seconds)


async def _drain(receive: Receive) -> None:
    """Read what is left of a body, so that its sender reads the answer."""
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while more and size < _DRAIN:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


def _request_id(scope: Scope) -> str:
    """The client's `X-Request-ID` where it is a UUID, which cannot be a patient's id."""
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    try:
        return str(uuid.UUID(given))
    except ValueError:
        return str(uuid.uuid4())


def where(error: BaseException) -> dict[str, Any]:
    """Type and place of an exception; its message may quote a note."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-3:]]
    return {"error": type(error).__name__, "at": places}


class JsonLines(logging.Formatter):
    """Log records as JSON lines; of an exception only its type and place."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[1]:
            line |= where(record.exc_info[1])
        return json.dumps(line)


def log_as_json(level: str) -> None:
    """Send all logs to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(level.upper())
