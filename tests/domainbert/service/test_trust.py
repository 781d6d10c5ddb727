"""Tokens of clients: who may call, with what, once."""

import asyncio
import base64
import hmac
import json
import sqlite3
import time
import uuid

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from domainbert.errors import UserError
from domainbert.service import trust as trust_module
from domainbert.service.ledger import Ledger
from domainbert.service.trust import LEEWAY, Trust

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
        name: value
        for name, value in (made | changes).items()
        if value is not None
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
        return client.post(
            path, json={"records": [{"text": "abc"}]}, headers=headers
        )

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
        call(token(keys, alg, aud=[HERE + "/v1/lengths", "other"])).status_code
        == 200
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
    assert (
        words in answer.json()["error"]
        or "not valid" in answer.json()["error"]
    )


def encoded(part):
    return (
        base64.urlsafe_b64encode(json.dumps(part).encode())
        .rstrip(b"=")
        .decode()
    )


def test_other_algorithms_and_keys_are_refused(call, keys):
    # The public key as the secret of an HMAC: what a careless verifier takes.
    signing = f"{encoded({'alg': 'HS384', 'kid': 'rsa'})}.{encoded(claims())}"
    digest = hmac.digest(
        keys["RS384"].as_pem(private=False), signing.encode(), "sha384"
    )
    parts = token(keys).split(".")
    stranger = ECKey.generate_key("P-384", {"kid": "ec"})
    unknown = ECKey.generate_key("P-384", {"kid": "new"})
    refused = {
        "hmac": f"{signing}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}",
        "none": f"{encoded({'alg': 'none', 'kid': 'rsa'})}.{encoded(claims())}.",
        "no signature": ".".join([*parts[:2], ""]),
        "changed": ".".join([parts[0], parts[1][:-2] + "AA", parts[2]]),
        "another's key": token(keys, key=stranger),
        "an unknown key": token(keys, key=unknown),
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


@pytest.mark.parametrize("typ", [None, "", "JOSE", "at+jwt", 7, ["JWT"]])
def test_a_token_says_that_it_is_one(call, keys, typ):
    """CDS Hooks: typ is required, with the value JWT."""
    head = {"alg": "ES384", "kid": "ec"}
    if typ is not None:
        head["typ"] = typ
    answer = call(f"{encoded(head)}.{encoded(claims())}.AA")
    assert answer.status_code == 401
    assert "typ JWT" in answer.json()["error"]


def test_an_address_of_keys_is_ignored_where_they_are_a_file(call, keys):
    elsewhere = {"jku": "https://evil.example/keys"}
    assert call(token(keys, header=elsewhere)).status_code == 200
    stranger = ECKey.generate_key("P-384", {"kid": "ec"})
    signed = token(keys, key=stranger, header=elsewhere)
    assert call(signed).status_code == 401


def test_once_is_once_until_the_last_moment(call, keys):
    """`exp` may have a fraction, and the clocks that check it round."""
    for fraction in (0.001, 0.25, 0.999):
        while time.time() % 1 > 0.3:
            time.sleep(0.01)
        exp = int(time.time()) - LEEWAY + fraction
        signed = token(keys, exp=exp, iat=exp - 300)
        end = time.monotonic() + 1
        statuses = []
        while time.monotonic() < end:
            statuses.append(call(signed).status_code)
        assert statuses.count(200) <= 1, (fraction, statuses)


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": float("nan")},
        {"iat": float("nan")},
        {"exp": float("inf")},
        {"iat": float("-inf")},
    ],
)
def test_times_that_are_no_numbers_are_refused(call, keys, changes):
    assert call(token(keys, **changes)).status_code == 401


def test_what_needs_no_token(call):
    for path in ("/health", "/ready", "/metrics", "/docs/"):
        assert call.client.get(path).status_code == 200
    for path in ("/v1", "/v1/nothing"):
        assert call.client.get(path).status_code == 401


@pytest.mark.parametrize("host", ["[", "[::1", "a b", "evil.example", "é"])
def test_any_host_of_a_client_is_read_or_refused(call, keys, host):
    headers = {"host": host.encode()}
    body = {"records": [{"text": "abc"}]}
    for path in ("/v1/lengths", "/v1/other", "/docs", "/docs/none"):
        authorization = f"Bearer {token(keys, aud=HERE + path)}"
        answer = call.client.post(
            path, json=body, headers=headers | {"authorization": authorization}
        )
        assert answer.status_code < 500, (host, path)


def remote(tmp_path, monkeypatch, fetch, *, clients=(ISSUER,)):
    """A `Trust` whose clients have keys at https addresses that `fetch` answers."""
    file = tmp_path / "clients.toml"
    tables = [
        f'[[client]]\nissuer = "{issuer}"\njwks = "{issuer}keys"\naudience = "{HERE}"\n'
        for issuer in clients
    ]
    file.write_text("".join(tables))

    async def fetch_json(client, url, *, max_bytes):
        return await fetch(url)

    monkeypatch.setattr(trust_module, "fetch_json", fetch_json)
    return Trust(
        file, Ledger(tmp_path / "run.sqlite", key_file=tmp_path / "key")
    )


def grow_older(trust, seconds):
    """Let the keys of all clients have been read so many seconds earlier."""
    for state in trust._keys.values():
        state.read_at -= seconds
        state.tried_at -= seconds


def admit(trust, signed):
    return asyncio.run(trust.admit(f"Bearer {signed}", "/v1/lengths"))


def test_a_new_key_is_fetched_from_its_address(tmp_path, keys, monkeypatch):
    answers = [KeySet([keys["ES384"]]), KeySet(list(keys.values()))]
    asked = []

    async def fetch(url):
        asked.append(url)
        return answers[len(asked) - 1].as_dict(private=False)

    trust = remote(tmp_path, monkeypatch, fetch)
    url = f"{ISSUER}keys"
    assert admit(trust, token(keys, header={"jku": url})) == ISSUER
    assert admit(trust, token(keys)) == ISSUER
    grow_older(trust, 61)
    assert admit(trust, token(keys, "RS384")) == ISSUER
    assert asked == [url, url]


def test_a_withdrawn_key_is_not_believed_for_long(tmp_path, keys, monkeypatch):
    documents = [KeySet(list(keys.values())).as_dict(private=False)]

    async def fetch(url):
        return documents[-1]

    trust = remote(tmp_path, monkeypatch, fetch)
    assert admit(trust, token(keys)) == ISSUER
    documents.append(KeySet([keys["RS384"]]).as_dict(private=False))
    assert admit(trust, token(keys)) == ISSUER  # for five minutes
    grow_older(trust, 301)
    with pytest.raises(HTTPException, match="not valid"):
        admit(trust, token(keys))


def test_keys_that_cannot_be_read_again_are_believed_for_a_while(
    tmp_path, keys, monkeypatch
):
    documents = [KeySet(list(keys.values())).as_dict(private=False)]

    async def fetch(url):
        return documents.pop()

    trust = remote(tmp_path, monkeypatch, fetch)
    assert admit(trust, token(keys)) == ISSUER
    grow_older(trust, 301)
    assert admit(trust, token(keys)) == ISSUER
    grow_older(trust, 3300)  # an hour in all
    with pytest.raises(
        HTTPException, match="keys of this client cannot be read"
    ):
        admit(trust, token(keys))


def test_a_key_server_that_is_down_delays_its_own_client_alone(
    tmp_path, keys, monkeypatch
):
    dead = "https://dead.example/"
    document = KeySet(list(keys.values())).as_dict(private=False)

    async def run():
        answered = asyncio.Event()

        async def fetch(url):
            if url.startswith(dead):
                await answered.wait()
                raise OSError
            return document

        trust = remote(tmp_path, monkeypatch, fetch, clients=(dead, ISSUER))
        stuck = [
            asyncio.create_task(trust.admit(f"Bearer {signed}", "/v1/lengths"))
            for signed in (token(keys, iss=dead) for _ in range(50))
        ]
        await asyncio.sleep(0)
        issuer = await trust.admit(f"Bearer {token(keys)}", "/v1/lengths")
        answered.set()
        faults = await asyncio.gather(*stuck, return_exceptions=True)
        return issuer, {fault.status_code for fault in faults}

    assert asyncio.run(run()) == (ISSUER, {401})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"keys": 5}',
        b'{"keys": [5, null]}',
        b'{"keys": [{}]}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "ec"}]}',
        b'{"keys": [{"kty": "RSA", "n": "'
        + b"_" * 50_000
        + b'", "e": "AQAB"}]}',
        b'{"keys": [{"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA", "kid": "ec"}]}',
        b'{"keys": [{"kty": ["EC"], "kid": {"a": []}}]}',
        b"[" * 100_000,
        b'{"keys": [' + b" " * (1 << 20) + b"]}",
    ],
    ids=lambda content: content[:20].decode("latin-1"),
)
def test_hostile_keys_admit_nobody_and_stop_nothing(
    call, keys, trusted, content
):
    trusted.with_name("keys.json").write_bytes(content)
    assert call(token(keys)).status_code == 401
    assert call.client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "keys_given",
    [
        [],
        [OctKey.generate_key(256)],
        [ECKey.generate_key("P-256")],
        [OctKey.generate_key(256), ECKey.generate_key("P-521")],
    ],
)
def test_keys_that_sign_with_other_algorithms_are_a_fault(
    start, trusted, keys_given
):
    sound = start(trust=str(trusted)).service
    assert asyncio.run(sound.faults()) == []
    service = start(trust=str(trusted)).service
    document = KeySet(keys_given).as_dict()
    trusted.with_name("keys.json").write_text(json.dumps(document))
    (fault,) = asyncio.run(service.faults())
    assert fault == f"{ISSUER}: keys.json gives no key for ES384 or RS384"


def test_a_token_that_lives_too_long_is_refused(call, keys):
    now = int(time.time())
    answer = call(token(keys, exp=now + 7200))
    assert answer.status_code == 401
    assert "exp at most 3600 s after iat" in answer.json()["error"]
    assert call(token(keys, exp=now + 3000)).status_code == 200


def test_a_ledger_that_is_full_is_a_fault_of_the_service(
    call, keys, monkeypatch, caplog
):
    def full(_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Ledger, "_connect", full)
    answer = call(token(keys))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert "ledger" in answer.json()["error"]
    assert "ledger" in caplog.text


def test_a_page_of_an_allowed_origin_can_read_a_refusal(start, trusted):
    origin = "https://ehr.example"
    app = start(trust=str(trusted), cors=(origin,)).service.app
    answer = TestClient(app, base_url=HERE).post(
        "/v1/lengths", json={}, headers={"origin": origin}
    )
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == origin
    assert uuid.UUID(answer.headers["x-request-id"])


def test_a_trust_file_that_cannot_be_used(tmp_path, start):
    file = tmp_path / "clients.toml"
    with pytest.raises(UserError, match="no such file"):
        start(trust=str(file))
    file.write_text("client = 1")
    with pytest.raises(UserError, match="client: expected a list, got 1"):
        start(trust=str(file))
    table = '[[client]]\nissuer = "{}"\njwks = "{}"\naudience = "{}"\n'
    for values in (("", "k", "a"), ("i", " ", "a"), ("i", "k", "\t")):
        file.write_text(table.format(*values).replace("\t", "\\t"))
        with pytest.raises(UserError, match="expected text, not empty"):
            start(trust=str(file))
    (tmp_path / "k").write_text("{}")
    file.write_text(2 * table.format("i", "k", "a"))
    with pytest.raises(UserError, match="two clients have the issuer 'i'"):
        start(trust=str(file))
    file.write_text(
        '[[client]]\nissuer = "x"\njwks = "none.json"\naudience = "y"\n'
    )
    with pytest.raises(UserError, match=r"none\.json"):
        start(trust=str(file))
