"""Which clients a service trusts: their signed tokens (JWT); see docs/howto/bedside.md."""

from __future__ import annotations

import json
import threading
import time
import tomllib
import urllib.request
from typing import TYPE_CHECKING, Any

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from starlette.exceptions import HTTPException

from domainbert.errors import UserError
from domainbert.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from domainbert.service.ledger import Ledger

ALGORITHMS = ["ES384", "RS384"]  # asymmetric: no `none`, no HMAC
LEEWAY = 60  # seconds that clocks may differ
_REFRESH, _TIMEOUT = 60.0, 5.0  # seconds between two downloads of keys, and for one


class Client(Settings):
    """A client: the `iss` of its tokens, its public keys, and the start of their `aud`."""

    issuer: str
    jwks: str
    audience: str


def _refused(why: str) -> HTTPException:
    return HTTPException(401, why, {"www-authenticate": "Bearer"})


class Trust:
    """Checks the token of each call by a TOML file of clients; `ledger` remembers used tokens."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        try:
            tables = tomllib.loads(path.read_text("utf-8")).get("client", [])
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read ({type(error).__name__})") from None
        if not isinstance(tables, list) or not tables:
            raise UserError(f"{path}: no client; write a table [[client]] for each")
        self._clients = {client.issuer: client for client in (Client(**t) for t in tables)}
        for jwks in (client.jwks for client in self._clients.values()):
            if not jwks.startswith("https://") and not (path.parent / jwks).is_file():
                raise UserError(f"{jwks}: no such file beside {path.name}, and no https://")
        self._folder, self._ledger, self._lock = path.parent, ledger, threading.Lock()
        self._keys: dict[str, tuple[float, KeySet]] = {}  # by `jwks`, and when they were read

    def check(self, authorization: str, path: str) -> str:
        """The issuer of the token of a call; an `HTTPException` 401, which never quotes it."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _refused("expected the header Authorization: Bearer JWT")
        try:
            return self._check(token.strip(), path)
        except JoseError as error:  # of a claim, its description names no more than the claim
            said = error.description if "claim" in type(error).__name__.lower() else ""
            raise _refused(f"the token: {said or type(error).__name__}") from None
        except HTTPException:
            raise
        except Exception as error:  # noqa: BLE001  (whatever a forged token makes a reader raise)
            raise _refused(f"the token is not valid ({type(error).__name__})") from None

    def _check(self, token: str, path: str) -> str:
        unchecked = jws.extract_compact(token.encode("ascii"))
        header, issuer = unchecked.headers(), json.loads(unchecked.payload).get("iss")
        client = self._clients.get(issuer)
        if client is None:
            raise _refused("the token's iss is no client of this service")
        if header.get("alg") not in ALGORITHMS:
            raise _refused(f"the token's alg: expected {' or '.join(ALGORITHMS)}")
        if header.get("jku", client.jwks) != client.jwks:
            raise _refused("the token's jku is not the address of this client's keys")
        key = self._key(client.jwks, header.get("kid"))
        claims = jwt.decode(token, key, algorithms=ALGORITHMS).claims
        needed: Any = {name: {"essential": True} for name in ("exp", "iat", "jti")}
        needed["aud"] = {"essential": True, "value": client.audience.rstrip("/") + path}
        jwt.JWTClaimsRegistry(leeway=LEEWAY, **needed).validate(claims)
        if not isinstance(claims["jti"], str) or not claims["jti"]:
            raise _refused("the token's jti: expected text")
        if not self._ledger.use_token(issuer, claims["jti"], claims["exp"] + LEEWAY):
            raise _refused("this token was used before; sign a new one for each call")
        return str(issuer)

    def _key(self, jwks: str, kid: Any) -> Any:
        """The key with this id; keys at an address are asked for again where it is new."""
        remote = jwks.startswith("https://")
        with self._lock:
            read_at, keys = self._keys.get(jwks, (0.0, KeySet([])))
            known = [key for key in keys if key.kid == kid]
            if not known and (not read_at or (remote and time.time() - read_at > _REFRESH)):
                if remote:
                    with urllib.request.urlopen(jwks, timeout=_TIMEOUT) as answer:  # noqa: S310
                        raw = answer.read(1 << 20)
                else:
                    raw = (self._folder / jwks).read_bytes()
                keys = KeySet.import_key_set(json.loads(raw))
                self._keys[jwks] = time.time(), keys
                known = [key for key in keys if key.kid == kid]
        if not known:
            raise _refused("no key of this client has the token's kid")
        return known[0]
