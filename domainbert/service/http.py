"""HTTP around the tasks: ids of requests, tokens of clients, bodies with limits, logs."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
import traceback
import urllib.request
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from joserfc import jwt
from joserfc.errors import ClaimError
from joserfc.jwk import KeySet
from prometheus_client import Histogram
from pydantic import Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from domainbert.errors import UserError
from domainbert.settings import Settings
from domainbert.training.recipes import read_recipe

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from domainbert.service.ledger import Ledger

log = logging.getLogger(__name__)
POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; form-action 'none'"
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
DATA = (
    "/v1",
    "/cds-services",
)  # addresses that need a token; the others tell nothing of anyone
JSON = ("application/json", "application/fhir+json")
STOPPING = threading.Event()
ALGORITHMS = ["ES384", "RS384"]  # asymmetric: no `none`, no HMAC
LEEWAY = 60  # seconds that clocks may differ
_REFRESH, _TIMEOUT = 60.0, 5.0  # seconds between two reads of keys, and for one
_SECONDS = Histogram(
    "domainbert_request_seconds", "Time to answer", ["route", "status"]
)


class Answer(JSONResponse):
    """JSON, in ASCII: half a surrogate pair has no other form."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


async def read_body(receive: Receive, *, most: int, seconds: float) -> bytes:
    """The body of a request, or an `HTTPException`: 408 too slow, 413 too long.

    It is read to its end in any case: a client that is still sending reads no answer.
    """
    size, parts, message = 0, [], dict[str, Any](more_body=True)
    try:
        async with asyncio.timeout(seconds):
            while message.get("more_body"):
                message = dict(await receive())
                size += len(message.get("body", b""))
                parts += [message.get("body", b"")] if size <= most else []
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
    """What surrounds every request of a `Service`: id, token, headers, a log line, metrics."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        started, status, headers = time.perf_counter(), 0, Headers(scope=scope)
        facts: dict[str, Any] = {
            "request": _request_id(headers.get("x-request-id", ""))
        }

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status, answered = message["status"], MutableHeaders(scope=message)
                answered.update({**HEADERS, "x-request-id": facts["request"]})
                if STOPPING.is_set():
                    answered["connection"] = "close"
            await send(message)

        try:
            if scope["path"].startswith(DATA) and scope["method"] != "OPTIONS":
                receive = await _admitted(service, scope, receive, facts)
            await app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001  (a request's fault must not end the worker)
            why = f"internal error; report the request id {facts['request']}"
            refused = (
                error if isinstance(error, HTTPException) else HTTPException(500, why)
            )
            if refused is not error:
                log.error("internal error", extra={"facts": facts | where(error)})
            if not status:
                await service.refusal(scope["path"], refused)(scope, receive, sending)
        seconds = time.perf_counter() - started
        # The pattern of the route, not the path: a path may hold an id.
        route, status = getattr(scope.get("route"), "path", "none"), status or 499
        facts |= {"route": route, "status": status, "ms": round(1000 * seconds, 1)}
        log.info("request", extra={"facts": facts})
        _SECONDS.labels(route, status).observe(seconds)

    return answer


async def _admitted(
    service: Any, scope: Scope, receive: Receive, facts: dict[str, Any]
) -> Receive:
    """Check token, type and length; what then gives the body."""
    seconds, headers = service.settings.seconds, Headers(scope=scope)
    try:
        if service.trust:
            token = headers.get("authorization", "")
            facts["client"] = await asyncio.to_thread(
                service.trust.check, token, scope["path"]
            )
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and kind not in JSON:
            raise HTTPException(415, "expected Content-Type: application/json")
    except HTTPException:
        with suppress(HTTPException):
            await read_body(receive, most=0, seconds=seconds)
        raise
    body = await read_body(receive, most=service.most_bytes, seconds=seconds)
    with suppress(
        ValueError, RecursionError
    ):  # FastAPI says what is wrong with other JSON
        json.loads(body, object_pairs_hook=_once)

    async def received() -> Message:
        return {"type": "http.request", "body": body}

    return received


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Refuse an object with a key twice: one of two texts would be lost silently."""
    if len(dict(pairs)) < len(pairs):
        raise HTTPException(
            400, "an object in the body has a key twice; expected each key once"
        )


def _request_id(given: str) -> str:
    """The client's own where it is a UUID, which cannot be a patient's id."""
    with suppress(ValueError):
        return str(uuid.UUID(given))
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
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(
            timespec="milliseconds"
        )
        line = {
            "time": moment,
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        error = record.exc_info[1] if record.exc_info else None
        return json.dumps(
            line | getattr(record, "facts", {}) | (where(error) if error else {})
        )


class Client(Settings):
    """A client: the `iss` of its tokens, its public keys, and the start of their `aud`."""

    issuer: str
    jwks: str
    audience: str


class Clients(Settings):
    """The file of `--trust`: one table `[[client]]` each; see docs/howto/bedside.md."""

    client: Annotated[tuple[Client, ...], Field(strict=False, min_length=1)]


class Trust:
    """Checks the token (JWT) of each call; `ledger` remembers those that were used."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        if not path.is_file():
            raise UserError(
                f"{path}: no such file; it has a table [[client]] for each client"
            )
        self._clients = {
            client.issuer: client for client in read_recipe(Clients, path).client
        }
        for jwks in (client.jwks for client in self._clients.values()):
            if not jwks.startswith("https://") and not (path.parent / jwks).is_file():
                raise UserError(
                    f"{jwks}: no such file beside {path.name}, and no https://"
                )
        self._folder, self._ledger, self._lock = path.parent, ledger, threading.Lock()
        self._keys: dict[str, tuple[float, KeySet]] = {}  # by `jwks`, and when read

    def check(self, authorization: str, path: str) -> str:
        """The issuer of the token of a call; an `HTTPException` 401, which never quotes it."""
        scheme, _, token = authorization.partition(" ")
        try:
            if scheme.lower() != "bearer" or not token:
                raise UserError("expected the header Authorization: Bearer JWT")
            claims = jwt.decode(
                token.strip(), self._keys_of, algorithms=ALGORITHMS
            ).claims
            client = self._clients[claims["iss"]]
            needed: Any = {name: {"essential": True} for name in ("exp", "iat", "jti")}
            needed["aud"] = {
                "essential": True,
                "value": client.audience.rstrip("/") + path,
            }
            jwt.JWTClaimsRegistry(leeway=LEEWAY, **needed).validate(claims)
            if not self._ledger.use_token(
                client.issuer, claims["jti"], claims["exp"] + LEEWAY
            ):
                raise UserError(
                    "this token was used before; sign a new one for each call"
                )
        except Exception as error:  # noqa: BLE001  (whatever a forged token makes a reader raise)
            # Of a claim that does not hold, the description names no more than the claim.
            what = (
                error.description
                if isinstance(error, ClaimError)
                else type(error).__name__
            )
            why = f"the token is not valid: {what}; expected {' or '.join(ALGORITHMS)}, with a kid"
            why = str(error) if isinstance(error, UserError) else why
            raise HTTPException(401, why, {"www-authenticate": "Bearer"}) from None
        return client.issuer

    def _keys_of(self, unchecked: Any) -> KeySet:
        """The keys of a token's client; they are read again where the token's is new."""
        client = self._clients.get(json.loads(unchecked.payload).get("iss"))
        if client is None:
            raise UserError("the token's iss is no client of this service")
        header, jwks = unchecked.headers(), client.jwks
        if header.get("jku", jwks) != jwks:
            raise UserError("the token's jku is not the address of this client's keys")
        with self._lock:
            read_at, keys = self._keys.get(jwks, (-math.inf, KeySet([])))
            is_known = header.get("kid") in {key.kid for key in keys}
            if not is_known and time.monotonic() - read_at > _REFRESH:
                is_file = not jwks.startswith("https://")
                url = (self._folder / jwks).resolve().as_uri() if is_file else jwks
                with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310
                    keys = KeySet.import_key_set(json.loads(answer.read(1 << 20)))
                self._keys[jwks] = time.monotonic(), keys
        return keys
