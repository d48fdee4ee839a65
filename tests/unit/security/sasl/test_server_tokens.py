"""OAUTHBEARER at the broker: good tokens, and every kind of bad one."""

import asyncio
import base64
import json
from collections.abc import Awaitable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from odradek.security.sasl.server.exchange import Login, LoginFailed, Step
from odradek.security.sasl.server.oauthbearer import BadToken, OAuthBearer, TokenChecker
from odradek.security.sasl.server.token_claims import ClaimRules
from odradek.security.sasl.server.tokens import SignedTokens
from odradek.security.sasl.server.unsecured_tokens import UnsecuredTokens
from odradek.security.sasl.server.verification_keys import VerificationKeys

NOW_S = 1_700_000_000
KEY = rsa.generate_private_key(65537, 2048)
OTHER = ec.generate_private_key(ec.SECP256R1())
CLAIMS = {"sub": "alice", "iss": "issuer", "aud": "kafka", "iat": NOW_S - 5, "exp": NOW_S + 60}
RULES = ClaimRules(audiences=("kafka", "other"), issuer="issuer", skew_ms=1000)


def public(key: Any, kid: str) -> dict[str, Any]:
    kind = (
        jwt.algorithms.RSAAlgorithm
        if isinstance(key, rsa.RSAPrivateKey)
        else (jwt.algorithms.ECAlgorithm)
    )
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": kid, "use": "sig"}


class Issuer:
    """Publishes keys, and counts how often it was asked."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys = list(keys)
        self.asked = 0
        self.is_down = False
        self.has_answered = asyncio.Event()

    async def fetch(self) -> bytes:
        self.asked += 1
        await asyncio.sleep(0)
        if self.is_down:
            raise OSError("down")
        self.has_answered.set()
        return json.dumps({"keys": self.keys}).encode()


def checker(issuer: Issuer, rules: ClaimRules = RULES) -> SignedTokens:
    keys = VerificationKeys(issuer.fetch, "https://issuer/jwks", refresh_s=3600)
    return SignedTokens(keys, rules, lambda: NOW_S * 1000)


def token(key: Any = KEY, algorithm: str = "RS256", kid: str = "first", **changes: Any) -> str:
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode(claims, key, algorithm, headers={"kid": kid})


async def check(tokens: TokenChecker, text: str) -> Login:
    found = tokens.check(text)
    return await found if isinstance(found, Awaitable) else found


async def test_good_tokens() -> None:
    tokens = checker(Issuer(public(KEY, "first"), public(OTHER, "second")))
    assert await check(tokens, token()) == Login("alice", (NOW_S + 60) * 1000)
    found = await check(tokens, token(OTHER, "ES256", "second", aud=["x", "other"], groups=["ops"]))
    assert found.groups == ("ops",)
    tokens.close()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": NOW_S - 2}, "has expired"),
        ({"exp": None}, "claim exp"),
        ({"exp": True}, "claim exp"),
        ({"iat": None}, "claim iat"),
        ({"iat": NOW_S + 30}, "not valid yet"),
        ({"nbf": NOW_S + 30}, "not valid yet"),
        ({"aud": "elsewhere"}, "another audience"),
        ({"aud": None}, "no audience"),
        ({"iss": "mallory"}, "not from issuer"),
        ({"iss": None}, "not from issuer"),
        ({"sub": None}, "no name"),
        ({"sub": "  "}, "no name"),
        ({"scope": 7}, "no scopes"),
    ],
)
async def test_bad_claims(changes: dict[str, Any], reason: str) -> None:
    tokens = checker(Issuer(public(KEY, "first")))
    with pytest.raises(BadToken, match=reason):
        await check(tokens, token(**changes))
    tokens.close()


async def test_an_audience_that_nobody_expects_is_refused_as_in_kafka() -> None:
    tokens = checker(Issuer(public(KEY, "first")), ClaimRules())
    with pytest.raises(BadToken, match="another audience"):
        await check(tokens, token())
    assert (await check(tokens, token(aud=None))).name == "alice"
    tokens.close()


async def test_signatures_that_prove_nothing() -> None:
    def encoded(part: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()

    import hmac

    tokens = checker(Issuer(public(KEY, "first")))
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    unsigned = f"{encoded({'alg': 'none', 'kid': 'first'})}.{encoded(CLAIMS)}"
    body = f"{encoded({'alg': 'HS256', 'kid': 'first'})}.{encoded(CLAIMS)}"
    mac = base64.urlsafe_b64encode(hmac.digest(pem, body.encode(), "sha256")).rstrip(b"=").decode()
    stranger = rsa.generate_private_key(65537, 2048)
    for bad in (
        f"{unsigned}.",
        f"{body}.{mac}",
        token(stranger),
        token()[:-4] + "AAAA",
        "x",
        "a.b.c",
    ):
        with pytest.raises(BadToken):
            await check(tokens, bad)
    tokens.close()


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "PS384"])
async def test_an_rsa_key_that_names_no_algorithm_is_good_for_all_of_rsa(algorithm: str) -> None:
    """As in Kafka. The keys of some issuers name none."""
    tokens = checker(Issuer(public(KEY, "first")))
    assert (await check(tokens, token(algorithm=algorithm))).name == "alice"
    tokens.close()
    named = checker(Issuer({**public(KEY, "first"), "alg": "RS256"}))
    if algorithm != "RS256":
        with pytest.raises(BadToken, match="not accepted"):
            await check(named, token(algorithm=algorithm))
    named.close()


ODD_KEYS: list[dict[str, Any]] = [
    {**public(KEY, "odd"), "alg": "none"},
    {**public(KEY, "odd"), "alg": "HS256"},
    {**public(KEY, "odd"), "alg": ["RS256"]},
    {**public(KEY, "odd"), "kid": ["odd"]},
    {**public(KEY, "odd"), "n": 5},
    {"kty": ["RSA"], "kid": "odd"},
    {"kty": "oct", "k": "c2VjcmV0", "kid": "odd"},
]


@pytest.mark.parametrize("odd", ODD_KEYS)
async def test_a_key_that_cannot_be_used_is_left_out(odd: dict[str, Any]) -> None:
    tokens = checker(Issuer(odd, public(KEY, "first")))
    assert (await check(tokens, token())).name == "alice"
    for algorithm, key in (("RS256", KEY), ("HS256", b"secret" * 6)):
        with pytest.raises(BadToken):
            await check(tokens, token(key, algorithm, "odd"))
    tokens.close()


@pytest.mark.parametrize("nested", ["[" * 40_000, '{"alg":' * 5000])
async def test_a_header_that_is_nested_deeply_is_refused(nested: str) -> None:
    tokens = checker(Issuer(public(KEY, "first")))
    head = base64.urlsafe_b64encode(nested.encode()).rstrip(b"=").decode()
    with pytest.raises(BadToken):
        await check(tokens, f"{head}.{head}.x")
    tokens.close()


async def test_unknown_keys_let_the_issuer_be_asked_once() -> None:
    issuer = Issuer(public(KEY, "first"))
    tokens = checker(issuer)
    await check(tokens, token())
    assert issuer.asked == 1
    for number in range(50):
        with pytest.raises(BadToken, match="unknown key"):
            await check(tokens, token(kid=f"unknown-{number}"))
    assert issuer.asked == 1, "the first fetch was a moment ago"
    tokens.close()


async def test_many_log_ins_share_the_first_fetch() -> None:
    issuer = Issuer(public(KEY, "first"))
    tokens = checker(issuer)
    logins = await asyncio.gather(*(check(tokens, token()) for _ in range(20)))
    assert {login.name for login in logins} == {"alice"}
    assert issuer.asked == 1
    tokens.close()


async def test_an_issuer_that_is_down_refuses_nobody_for_ever() -> None:
    issuer = Issuer(public(KEY, "first"))
    issuer.is_down = True
    keys = VerificationKeys(issuer.fetch, "here", refresh_s=3600, retry_s=0.001, max_retry_s=0.001)
    tokens = SignedTokens(keys, RULES, lambda: NOW_S * 1000)
    with pytest.raises(BadToken, match="cannot be fetched from here"):
        await check(tokens, token())
    issuer.is_down = False
    async with asyncio.timeout(20):
        await issuer.has_answered.wait()
    await asyncio.sleep(0)  # The keys are put in force in the task that fetched them.
    assert (await check(tokens, token())).name == "alice"
    tokens.close()


async def exchange_of(*messages: bytes) -> Step:
    tokens = checker(Issuer(public(KEY, "first")))
    exchange = OAuthBearer(tokens).begin()
    try:
        for message in messages:
            found = exchange.respond(message)
            step = await found if isinstance(found, Awaitable) else found
        return step
    finally:
        tokens.close()


def message(text: str, header: str = "n,,", more: str = "") -> bytes:
    return f"{header}\x01auth=Bearer {text}\x01{more}\x01".encode()


async def test_the_exchange() -> None:
    login = (await exchange_of(message(token(), more="traceId=7\x01"))).login
    assert login is not None
    assert (login.name, dict(login.extensions)) == ("alice", {"traceId": "7"})
    assert (await exchange_of(message(token(), "n,a=alice,"))).login is not None


async def test_a_bad_token_is_answered_with_json_and_then_refused() -> None:
    bad = message(token(exp=NOW_S - 60))
    assert await exchange_of(bad) == Step(b'{"status":"invalid_token"}')
    for after in (b"\x01", message(token())):
        with pytest.raises(LoginFailed) as failed:
            await exchange_of(bad, after)
        assert failed.value.told == '{"status":"invalid_token"}'


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"\xff",
        b"n,,\x01auth=Bearer x\x01" + b"a=b\x01" * 100_000 + b"\x01",
    ],
)
async def test_malformed_messages_are_refused(text: bytes) -> None:
    with pytest.raises(LoginFailed):
        await exchange_of(text)


async def test_a_token_lets_nobody_be_somebody_else() -> None:
    with pytest.raises(LoginFailed):
        await exchange_of(message(token(), "n,a=bob,"))


def test_unsecured_tokens() -> None:
    def made(head: dict[str, Any], claims: dict[str, Any], signature: str = "") -> str:
        parts = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in (head, claims))
        return ".".join([*(part.rstrip(b"=").decode() for part in parts), signature])

    claims = {"sub": "alice", "exp": NOW_S + 60, "scope": "read"}
    tokens = UnsecuredTokens({"unsecuredValidatorRequiredScope": "read"}, lambda: NOW_S * 1000)
    assert tokens.check(made({"alg": "none"}, claims)).name == "alice"
    for bad in (
        made({"alg": "RS256"}, claims),
        made({"alg": "none"}, claims, "signature"),
        made({"alg": "none"}, {**claims, "scope": "other"}),
        made({"alg": "none"}, {**claims, "exp": NOW_S - 60}),
        "x",
    ):
        with pytest.raises(BadToken):
            tokens.check(bad)
