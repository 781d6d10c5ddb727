"""Tokens of clients: who may call, with what, once."""

import base64
import hmac
import json
import time
import uuid

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from starlette.testclient import TestClient

from domainbert.errors import UserError
from domainbert.service import trust as trust_module
from domainbert.service.ledger import Ledger
from domainbert.service.trust import Trust

ISSUER, HERE = "https://ehr.example/", "https://cds.example"


@pytest.fixture(scope="module")
def keys():
    return {
        "ES384": ECKey.generate_key("P-384", {"kid": "ec"}),
        "RS384": RSAKey.generate_key(2048, {"kid": "rsa"}),
    }


@pytest.fixture
def trusted(tmp_path, keys):
    public = KeySet(list(keys.values())).as_dict(private=False)
    (tmp_path / "keys.json").write_text(json.dumps(public))
    file = tmp_path / "clients.toml"
    file.write_text(
        f'[[client]]\nissuer = "{ISSUER}"\njwks = "keys.json"\naudience = "{HERE}"\n'
    )
    return file


def claims(path="/v1/lengths", **changes):
    now = int(time.time())
    made = {
        "iss": ISSUER,
        "aud": HERE + path,
        "exp": now + 300,
        "iat": now,
        "jti": str(uuid.uuid4()),
    }
    return {
        name: value for name, value in (made | changes).items() if value is not None
    }


def token(keys, alg="ES384", *, header=None, key=None, **changes):
    key = key or keys[alg]
    head = {"alg": alg, "typ": "JWT", "kid": key.kid, **(header or {})}
    return jwt.encode(head, claims(**changes), key, algorithms=[alg])


@pytest.fixture
def call(start, trusted):
    app = start(trust=str(trusted)).service.app
    client = TestClient(app, base_url=HERE)

    def send(token, path="/v1/lengths"):
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return client.post(path, json={"records": [{"text": "abc"}]}, headers=headers)

    send.client = client
    return send


@pytest.mark.parametrize("alg", ["ES384", "RS384"])
def test_a_signed_token_is_taken_once(call, keys, alg):
    signed = token(keys, alg)
    assert call(signed).status_code == 200
    again = call(signed)
    assert again.status_code == 401
    assert again.headers["www-authenticate"] == "Bearer"
    assert "used before" in again.json()["error"]
    assert (
        call(token(keys, alg, aud=[HERE + "/v1/lengths", "other"])).status_code == 200
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"iss": "https://evil.example/"}, "iss"),
        ({"iss": None}, "iss"),
        ({"iss": ["x"]}, "iss"),
        ({"aud": HERE}, "aud"),
        ({"aud": HERE + "/cds-services"}, "aud"),
        ({"aud": None}, "aud"),
        ({"exp": 1}, "Expired"),
        ({"exp": None}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"exp": True}, "exp"),
        ({"iat": None}, "iat"),
        ({"iat": 4e9}, "future"),
        ({"jti": None}, "jti"),
        ({"jti": ""}, "jti"),
        ({"jti": 7}, "jti"),
    ],
)
def test_a_claim_that_does_not_hold(call, keys, changes, words):
    answer = call(token(keys, **changes))
    assert answer.status_code == 401
    assert words in answer.json()["error"] or "not valid" in answer.json()["error"]


def encoded(part):
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def test_other_algorithms_and_keys_are_refused(call, keys):
    # The public key as the secret of an HMAC: what a careless verifier takes.
    signing = f"{encoded({'alg': 'HS384', 'kid': 'rsa'})}.{encoded(claims())}"
    digest = hmac.digest(
        keys["RS384"].as_pem(private=False), signing.encode(), "sha384"
    )
    parts = token(keys).split(".")
    stranger = ECKey.generate_key("P-384", {"kid": "ec"})
    unknown = ECKey.generate_key("P-384", {"kid": "new"})
    elsewhere = {"jku": "https://evil.example/keys"}
    refused = {
        "hmac": f"{signing}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}",
        "none": f"{encoded({'alg': 'none', 'kid': 'rsa'})}.{encoded(claims())}.",
        "no signature": ".".join([*parts[:2], ""]),
        "changed": ".".join([parts[0], parts[1][:-2] + "AA", parts[2]]),
        "another's key": token(keys, key=stranger),
        "an unknown key": token(keys, key=unknown),
        "keys elsewhere": token(keys, header=elsewhere),
        "a list": f"{encoded({'alg': 'ES384', 'kid': 'ec'})}.{encoded([])}.{parts[2]}",
        "half": parts[0],
        "no token": "",
        "noise": "é" * 10,
        "long": "a" * 20_000,
    }
    for what, given in refused.items():
        answer = call(given.encode() if what == "noise" else given)
        assert answer.status_code == 401, what
        assert given == "" or given[:40] not in answer.text


def test_what_needs_no_token(call):
    for path in ("/health", "/ready", "/metrics", "/docs/"):
        assert call.client.get(path).status_code == 200
    for path in ("/v1", "/v1/nothing"):
        assert call.client.get(path).status_code == 401


def test_a_new_key_is_fetched_from_its_address(tmp_path, keys, monkeypatch):
    file = tmp_path / "clients.toml"
    url = "https://ehr.example/keys"
    file.write_text(
        f'[[client]]\nissuer = "{ISSUER}"\njwks = "{url}"\naudience = "{HERE}"\n'
    )
    sets = [KeySet([keys["ES384"]]), KeySet(list(keys.values()))]
    asked = []

    class Answer:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def read(self, most):
            return json.dumps(
                sets[min(len(asked), 2) - 1].as_dict(private=False)
            ).encode()

    monkeypatch.setattr(
        trust_module.urllib.request,
        "urlopen",
        lambda url, timeout: asked.append(url) or Answer(),
    )
    monkeypatch.setattr(trust_module, "_REFRESH_SECONDS", 0.0)
    trust = Trust(file, Ledger(tmp_path / "run.sqlite"))
    own = {"header": {"jku": url}}
    assert trust.check(f"Bearer {token(keys, **own)}", "/v1/lengths") == ISSUER
    assert trust.check(f"bearer {token(keys, 'RS384')}", "/v1/lengths") == ISSUER
    assert asked == [url, url]


def test_a_trust_file_that_cannot_be_used(tmp_path, start):
    file = tmp_path / "clients.toml"
    with pytest.raises(UserError, match="no such file"):
        start(trust=str(file))
    file.write_text("client = 1")
    with pytest.raises(UserError, match="client: expected a list, got 1"):
        start(trust=str(file))
    file.write_text('[[client]]\nissuer = "x"\njwks = "none.json"\naudience = "y"\n')
    with pytest.raises(UserError, match=r"none\.json"):
        start(trust=str(file))
