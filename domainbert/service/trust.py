"""Trust: checks the tokens (JWT) of clients."""

from __future__ import annotations

import json
import math
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from joserfc import jwt
from joserfc.errors import ClaimError
from joserfc.jwk import KeySet
from pydantic import Field
from starlette.exceptions import HTTPException

from domainbert.errors import UserError
from domainbert.settings import Settings
from domainbert.training.recipes import read_recipe

if TYPE_CHECKING:
    from domainbert.service.ledger import Ledger

ALGORITHMS = ["ES384", "RS384"]  # asymmetric: no `none`, no HMAC
LEEWAY = 60  # seconds that clocks may differ
_REFRESH_SECONDS = 60.0  # between two reads of a client's keys
_TIMEOUT_SECONDS = 5.0  # of one read


class Client(Settings):
    """A client: the `iss` of its tokens, the address of its keys, and the start of their `aud`."""

    issuer: str
    jwks: str
    audience: str


class Clients(Settings):
    """The file of `--trust`, with a table `[[client]]` for each; see docs/howto/bedside.md."""

    client: Annotated[tuple[Client, ...], Field(strict=False, min_length=1)]


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
        self._lock = threading.Lock()
        self._clients: dict[str, Client] = {}
        # The keys of each `jwks`, and when they were read.
        self._keys: dict[str, tuple[float, KeySet]] = {}
        for client in read_recipe(Clients, path).client:
            self._clients[client.issuer] = client
            if _is_remote(client.jwks) or (self._folder / client.jwks).is_file():
                continue
            raise UserError(
                f"{client.jwks}: no such file beside {path.name}, and no https://"
            )

    def check(self, authorization: str, path: str) -> str:
        """The issuer of the token of a call.

        Raises:
            HTTPException: 401, with a message that never quotes the token.
        """
        try:
            return self._check(authorization, path)
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

    def _check(self, authorization: str, path: str) -> str:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise UserError("expected the header Authorization: Bearer JWT")
        decoded = jwt.decode(token.strip(), self._keys_of, algorithms=ALGORITHMS)
        claims = decoded.claims
        client = self._clients[claims["iss"]]
        audience = client.audience.rstrip("/") + path
        essential: Any = {"essential": True}
        registry = jwt.JWTClaimsRegistry(
            leeway=LEEWAY,
            exp=essential,
            iat=essential,
            jti=essential,
            aud={**essential, "value": audience},
        )
        registry.validate(claims)
        expires_at = claims["exp"] + LEEWAY
        if not self._ledger.use_token(client.issuer, claims["jti"], expires_at):
            raise UserError("this token was used before; sign a new one for each call")
        return client.issuer

    def _keys_of(self, unchecked: Any) -> KeySet:
        """The keys of a token's client; they are read again for a token with a new key."""
        client = self._clients.get(json.loads(unchecked.payload).get("iss"))
        if client is None:
            raise UserError("the token's iss is no client of this service")
        header = unchecked.headers()
        if header.get("jku", client.jwks) != client.jwks:
            raise UserError("the token's jku is not the address of this client's keys")
        with self._lock:
            read_at, keys = self._keys.get(client.jwks, (-math.inf, KeySet([])))
            has_key = header.get("kid") in {key.kid for key in keys}
            if not has_key and time.monotonic() - read_at > _REFRESH_SECONDS:
                keys = self._read_keys(client.jwks)
                self._keys[client.jwks] = (time.monotonic(), keys)
        return keys

    def _read_keys(self, jwks: str) -> KeySet:
        url = jwks
        if not _is_remote(jwks):
            url = (self._folder / jwks).resolve().as_uri()
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310
            return KeySet.import_key_set(json.loads(response.read(1 << 20)))


def _is_remote(jwks: str) -> bool:
    return jwks.startswith("https://")
