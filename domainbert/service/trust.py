"""Which clients a service trusts: their signed tokens (JWT), as CDS Hooks asks for.

The file is TOML, one table a client:

    [[client]]
    issuer = "https://ehr.example.org/"
    jwks = "ehr-keys.json"                  # beside this file, or an https address
    audience = "https://cds.example.org"    # where clients find this service
"""

from __future__ import annotations

import json
import threading
import time
import tomllib
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from domainbert.errors import UserError
from domainbert.settings import Settings

if TYPE_CHECKING:
    from domainbert.service.ledger import Ledger

ALGORITHMS = ["ES384", "RS384"]  # asymmetric only: no `none`, no HMAC
LEEWAY = 60  # seconds that clocks may differ
LONGEST_TOKEN, LONGEST_JTI = 16_384, 256
_REFRESH = 60.0  # seconds between two downloads of the keys
_TIMEOUT = 5.0


class Client(Settings):
    """A client that may call.

    Attributes:
        issuer: the `iss` of its tokens.
        jwks: its public keys: a file, or an https address, which is asked when a key is new.
        audience: the address of this service; a token's `aud` is this and the path it calls.
    """

    issuer: str
    jwks: str
    audience: str


class NotTrustedError(Exception):
    """Why a token is refused; it never quotes the token."""


class _Keys:
    """The public keys of a client."""

    def __init__(self, source: str, folder: Path) -> None:
        self.source, self._folder = source, folder
        self._lock, self._read_at = threading.Lock(), 0.0
        self._keys: KeySet | None = None

    def get(self, kid: str) -> Any:
        """The key with this id."""
        with self._lock:
            found = self._find(kid)
            old = time.monotonic() - self._read_at > _REFRESH
            if found is None and (self._keys is None or (old and self._is_remote)):
                self._read()
                found = self._find(kid)
        if found is None:
            raise NotTrustedError("no key of this client has the token's kid")
        return found

    @property
    def _is_remote(self) -> bool:
        return self.source.startswith("https://")

    def _find(self, kid: str) -> Any:
        return next((key for key in self._keys or () if key.kid == kid), None)

    def _read(self) -> None:
        self._read_at = time.monotonic()
        try:
            if self._is_remote:
                with urllib.request.urlopen(self.source, timeout=_TIMEOUT) as answer:  # noqa: S310
                    raw = answer.read(1 << 20)
            else:
                raw = (self._folder / self.source).read_bytes()
            self._keys = KeySet.import_key_set(json.loads(raw))
        except (OSError, ValueError, KeyError, TypeError, JoseError) as error:
            kind = type(error).__name__
            raise NotTrustedError(f"the keys of this client cannot be read ({kind})") from None


class Trust:
    """Checks the token of each call.

    Args:
        path: see the module.
        ledger: remembers the tokens that were used.

    Raises:
        UserError: a file that cannot be read, or that names no client.
    """

    def __init__(self, path: Path, ledger: Ledger) -> None:
        try:
            tables = tomllib.loads(path.read_text("utf-8")).get("client", [])
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read ({type(error).__name__})") from None
        if not isinstance(tables, list) or not tables:
            raise UserError(f"{path}: no client; write a table [[client]] for each")
        clients = [Client(**table) for table in tables]
        for client in clients:
            if not client.jwks.startswith("https://") and not (path.parent / client.jwks).is_file():
                raise UserError(f"{client.jwks}: no such file beside {path.name}, and no https://")
        self._clients = {client.issuer: client for client in clients}
        self._keys = {c.issuer: _Keys(c.jwks, path.parent) for c in clients}
        self._ledger = ledger

    def check(self, authorization: str, path: str) -> str:
        """The issuer of a call's token.

        Args:
            authorization: the header.
            path: that is called, without the query.

        Raises:
            NotTrustedError: the token is missing, forged, old, used before, or for another call.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise NotTrustedError("expected the header Authorization: Bearer JWT")
        if len(token) > LONGEST_TOKEN:
            raise NotTrustedError(f"the token is longer than {LONGEST_TOKEN:,} characters")
        try:
            claims = self._claims(token)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise NotTrustedError(f"the token is not valid ({type(error).__name__})") from None
        client = self._clients[claims["iss"]]
        wanted = client.audience.rstrip("/") + path
        given = claims.get("aud")
        if wanted not in (given if isinstance(given, list) else [given]):
            raise NotTrustedError(f"the token's aud is not {wanted}")
        _check_times(claims)
        jti = claims.get("jti")
        if not isinstance(jti, str) or not 0 < len(jti) <= LONGEST_JTI:
            raise NotTrustedError(f"the token's jti: expected 1 to {LONGEST_JTI} characters")
        if not self._ledger.use_token(client.issuer, jti, float(claims["exp"]) + LEEWAY):
            raise NotTrustedError("this token was used before; sign a new one for each call")
        return client.issuer

    def _claims(self, token: str) -> dict[str, Any]:
        """The claims of a token whose signature holds."""
        unchecked = jws.extract_compact(token.encode("ascii"))
        header, payload = unchecked.headers(), json.loads(unchecked.payload)
        issuer = payload.get("iss") if isinstance(payload, dict) else None
        if not isinstance(issuer, str) or issuer not in self._clients:
            raise NotTrustedError("the token's iss is no client of this service")
        if header.get("alg") not in ALGORITHMS:
            raise NotTrustedError(f"the token's alg: expected {' or '.join(ALGORITHMS)}")
        if "jku" in header and header["jku"] != self._clients[issuer].jwks:
            raise NotTrustedError("the token's jku is not the address of this client's keys")
        key = self._keys[issuer].get(str(header.get("kid")))
        return dict(jwt.decode(token, key, algorithms=ALGORITHMS).claims)


def _check_times(claims: dict[str, Any]) -> None:
    now = time.time()
    for name in ("exp", "iat"):
        value = claims.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise NotTrustedError(f"the token's {name}: expected a number of seconds")
    if not claims["exp"] > now - LEEWAY:
        raise NotTrustedError("the token has expired")
    if not claims["iat"] < now + LEEWAY:
        raise NotTrustedError("the token's iat is in the future; compare the clocks")
