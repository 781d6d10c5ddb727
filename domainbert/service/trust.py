"""Trust: checks the tokens (JWT) of clients."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from joserfc import jwt
from joserfc.errors import ClaimError
from joserfc.jwk import KeySet
from joserfc.jws import extract_compact
from pydantic import Field
from starlette.exceptions import HTTPException

from domainbert.errors import UserError
from domainbert.service.http import fetch_json, http_client, where
from domainbert.settings import Settings
from domainbert.training.recipes import read_recipe

if TYPE_CHECKING:
    from domainbert.service.ledger import Ledger

log = logging.getLogger(__name__)
ALGORITHMS = ["ES384", "RS384"]  # asymmetric: no `none`, no HMAC
LEEWAY = 60  # seconds that clocks may differ
LIFETIME = 3600  # seconds of a token, at most
_RETRY_SECONDS = 60.0  # between two reads of a client's keys
_FRESH_SECONDS = 300.0  # after which keys are read again
# Age at which keys that cannot be read again are no longer trusted.
_STALE_SECONDS = 3600.0
_TIMEOUT_SECONDS = 5.0  # of one read
_MOST_BYTES = 1 << 20  # of the keys of a client


Named = Annotated[str, Field(pattern=r"\S", description="text, not empty")]


class Client(Settings):
    """A client: the `iss` of its tokens, the address of its keys, and the start of their `aud`."""

    issuer: Named
    jwks: Named
    audience: Named


class Clients(Settings):
    """The file of `--trust`, with a table `[[client]]` for each; see docs/howto/bedside.md."""

    client: Annotated[tuple[Client, ...], Field(strict=False, min_length=1)]


@dataclass
class _ClientKeys:
    """The keys of one client, and when they were read, on the clock of `time.monotonic`."""

    client: Client
    keys: KeySet = field(default_factory=lambda: KeySet([]))
    read_at: float = -math.inf
    tried_at: float = -math.inf
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Trust:
    """Checks the token of each call.

    Args:
        path: the TOML file of clients.
        ledger: remembers tokens that were used.

    Raises:
        UserError: no such file, or keys that are neither a file next to it nor `https://`.
    """

    def __init__(self, path: Path, ledger: Ledger) -> None:
        if not path.is_file():
            raise UserError(
                f"{path}: no such file; it has a table [[client]] for each client"
            )
        self._folder = path.parent
        self._ledger = ledger
        self._keys: dict[str, _ClientKeys] = {}  # by issuer
        for client in read_recipe(Clients, path).client:
            if client.issuer in self._keys:
                raise UserError(
                    f"{path}: two clients have the issuer {client.issuer!r}; put the keys of both "
                    "into one file, and leave one of the tables out"
                )
            self._keys[client.issuer] = _ClientKeys(client)
            if (
                client.jwks.startswith("https://")
                or (self._folder / client.jwks).is_file()
            ):
                continue
            raise UserError(
                f"{client.jwks}: no such file beside {path.name}, and no https://"
            )

    async def admit(self, authorization: str, path: str) -> str:
        """The issuer of the token of a call.

        Raises:
            HTTPException: 401, with a message that never quotes the token; 503 if the ledger cannot
                remember it.
        """
        try:
            return await self._admit(authorization, path)
        except sqlite3.Error as error:
            log.error("ledger", extra={"facts": where(error)})
            raise HTTPException(
                503,
                "the ledger of the service cannot be written",
                {"retry-after": "60"},
            ) from None
        except UserError as error:
            reason = str(error)
        # A forged token can make its reader raise anything.
        except Exception as error:  # noqa: BLE001
            fault = type(error).__name__
            if isinstance(error, ClaimError):
                # The description names the claim that does not hold, and not its value.
                fault = error.description
            reason = (
                f"the token is not valid: {fault}; expected {' or '.join(ALGORITHMS)}, "
                "with a kid"
            )
        raise HTTPException(401, reason, {"www-authenticate": "Bearer"})

    async def faults(self) -> list[str]:
        """The clients whose keys cannot be read now."""
        faults = []
        for issuer, state in self._keys.items():
            await self._read_keys(state)
            if not any(map(_is_usable, state.keys.keys)):
                faults.append(
                    f"{issuer}: {state.client.jwks} gives no key for {' or '.join(ALGORITHMS)}"
                )
        return faults

    async def _admit(self, authorization: str, path: str) -> str:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise UserError("expected the header Authorization: Bearer JWT")
        token = token.strip()
        unchecked = extract_compact(token.encode())
        state = self._keys.get(json.loads(unchecked.payload).get("iss"))
        if state is None:
            raise UserError("the token's iss is not a client of this service")
        header = unchecked.headers()
        if str(header.get("typ")).upper() != "JWT":
            raise UserError("the token has no typ JWT in its header")
        jwks = state.client.jwks
        # Where the keys are a file, the address of others is not asked for.
        is_remote = jwks.startswith("https://")
        if is_remote and header.get("jku", jwks) != jwks:
            raise UserError(
                "the token's jku is not the address of this client's keys"
            )
        await self._refresh(state, header.get("kid"))
        await asyncio.to_thread(self._check, token, state, path)
        return state.client.issuer

    def _check(self, token: str, state: _ClientKeys, path: str) -> None:
        claims = jwt.decode(token, state.keys, algorithms=ALGORITHMS).claims
        client = state.client
        audience = client.audience.rstrip("/") + path
        essential: Any = {"essential": True}
        registry = jwt.JWTClaimsRegistry(
            leeway=LEEWAY,
            iss={**essential, "value": client.issuer},
            exp=essential,
            iat=essential,
            jti=essential,
            aud={**essential, "value": audience},
        )
        registry.validate(claims)
        if not claims["exp"] - claims["iat"] <= LIFETIME:  # also for NaN
            raise UserError(
                f"the token is valid for too long; expected exp at most {LIFETIME} s after iat"
            )
        # Longer than it is valid: the clocks that decide about the two differ, and may be set.
        expires_at = claims["exp"] + 2 * LEEWAY
        if not self._ledger.use_token(
            client.issuer, claims["jti"], expires_at
        ):
            raise UserError(
                "this token was used before; sign a new one for each call"
            )

    async def _refresh(self, state: _ClientKeys, kid: object) -> None:
        """Read the keys of a client again if they are old or lack the key `kid` of a token.

        Calls of the same client wait for the read, and those of other clients do not.
        """
        async with state.lock:
            now = time.monotonic()
            is_new = kid not in [key.kid for key in state.keys]
            is_due = is_new or now - state.read_at > _FRESH_SECONDS
            if is_due and now - state.tried_at > _RETRY_SECONDS:
                state.tried_at = now
                await self._read_keys(state)
        if time.monotonic() - state.read_at > _STALE_SECONDS:
            raise UserError("the keys of this client cannot be read")

    async def _read_keys(self, state: _ClientKeys) -> None:
        """Read the keys of a client; if that fails, those of the last time are kept for now."""
        try:
            document = await self._fetch(state.client.jwks)
            state.keys = await asyncio.to_thread(
                KeySet.import_key_set, document
            )
            state.read_at = time.monotonic()
        # The document comes from elsewhere, and can make its reader raise anything.
        except Exception as error:  # noqa: BLE001
            log.warning("keys of a client", extra={"facts": where(error)})

    async def _fetch(self, jwks: str) -> Any:
        if not jwks.startswith("https://"):
            with (self._folder / jwks).open("rb") as file:
                return json.loads(file.read(_MOST_BYTES))
        async with asyncio.timeout(_TIMEOUT_SECONDS), http_client() as client:
            return await fetch_json(client, jwks, max_bytes=_MOST_BYTES)


def _is_usable(key: Any) -> bool:
    """Whether a key checks signatures of `ALGORITHMS`; a symmetric key does not."""
    return key.key_type == "RSA" or (
        key.key_type == "EC" and key.curve_name == "P-384"
    )
