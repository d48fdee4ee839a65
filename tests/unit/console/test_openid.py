"""What the console believes of an OpenID provider, and what not. A provider in memory answers; the
browser tests have a real one."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from odradek.console.http_json import HttpRefused
from odradek.console.openid import provider as module
from odradek.console.openid.provider import LogInFailed, PendingLogIn, Provider
from odradek.console.openid.settings import BadProvider, OpenIdSettings, check_address

ISSUER = "https://login.example.org/main"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Answers:
    """The provider: what it says of itself, its keys, and tokens with the claims of a test."""

    def __init__(self, **metadata: Any) -> None:
        self.metadata = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/auth?tenant=1",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
            **metadata,
        }
        self.tokens: dict[str, Any] = {"access_token": "for-the-brokers", "expires_in": 60}
        self.forms: list[tuple[Mapping[str, str], Mapping[str, str]]] = []

    async def ask_json(
        self,
        method: str,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        if url.endswith("/.well-known/openid-configuration"):
            return self.metadata
        if url.endswith("/keys"):
            public = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
            return {"keys": [{**public, "kid": "1", "use": "sig"}]}
        assert form is not None
        self.forms.append((form, headers or {}))
        if form.get("code") == "spent":
            raise HttpRefused(400, "the code was used before")
        return self.tokens


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    made = Answers()
    monkeypatch.setattr(module, "ask_json", made.ask_json)
    return made


def id_token(key: rsa.RSAPrivateKey = KEY, algorithm: str = "RS256", **claims: Any) -> str:
    now_s = int(time.time())
    given = {"iss": ISSUER, "aud": "console", "sub": "4711", "iat": now_s, "exp": now_s + 60}
    given |= {"preferred_username": "ada", **claims}
    secret: Any = "x" * 40 if algorithm == "HS256" else None if algorithm == "none" else key
    return jwt.encode(given, secret, algorithm, headers={"kid": "1"})


async def finished(answers: Answers, make: Callable[[PendingLogIn], str], **options: Any) -> Any:
    made = Provider(OpenIdSettings(ISSUER, "console", "top secret", **options))
    try:
        begun, url = await made.begin("https://console/log-in/kafka/openid", "/c/kafka")
        assert url.startswith(f"{ISSUER}/auth?tenant=1&response_type=code&")
        answers.tokens["id_token"] = make(begun)
        return await made.finish(begun, "a-code", "")
    finally:
        made.close()


async def test_a_good_answer(answers: Answers) -> None:
    granted = await finished(answers, lambda begun: id_token(nonce=begun.nonce))
    assert (granted.name, granted.token) == ("ada", "for-the-brokers")
    assert "for-the-brokers" not in repr(granted)
    ((form, headers),) = answers.forms
    assert len(form["code_verifier"]) >= 43
    assert headers["authorization"].startswith("Basic ")
    granted = await finished(
        answers, lambda begun: id_token(nonce=begun.nonce), shows_id_token=True
    )
    assert granted.token == answers.tokens["id_token"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda begun: id_token(nonce="another"), "belongs to another log-in"),
        (lambda begun: id_token(), "belongs to another log-in"),
        (lambda begun: id_token(nonce=begun.nonce, aud="shop"), "another audience"),
        (lambda begun: id_token(nonce=begun.nonce, azp="shop"), "another client"),
        (lambda begun: id_token(nonce=begun.nonce, iss="https://evil"), "not from"),
        (lambda begun: id_token(nonce=begun.nonce, exp=1, iat=0), "expired"),
        (lambda begun: id_token(OTHER, nonce=begun.nonce), "not accepted"),
        (lambda begun: id_token(algorithm="none", nonce=begun.nonce), "'none'"),
        (lambda begun: id_token(algorithm="HS256", nonce=begun.nonce), "'HS256'"),
        (lambda begun: "not a token", "not a token"),
        (lambda begun: "", "not a token"),
    ],
)
async def test_what_is_not_believed(
    answers: Answers, make: Callable[[PendingLogIn], str], words: str
) -> None:
    with pytest.raises(LogInFailed, match=words):
        await finished(answers, make)


async def test_other_providers_and_spent_codes(answers: Answers) -> None:
    made = Provider(OpenIdSettings(ISSUER, "console"))
    begun, _ = await made.begin("https://console/log-in/kafka/openid", "")
    with pytest.raises(LogInFailed, match="another provider"):
        await made.finish(begun, "a-code", "https://evil")
    with pytest.raises(LogInFailed, match="used before"):
        await made.finish(begun, "spent", ISSUER)
    made.close()


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"issuer": "https://evil"}, "calls itself"),
        ({"token_endpoint": "http://login.example.org/token"}, "https://"),
        ({"jwks_uri": None}, "https://"),
    ],
)
async def test_descriptions_that_are_refused(
    monkeypatch: pytest.MonkeyPatch, metadata: dict[str, Any], words: str
) -> None:
    monkeypatch.setattr(module, "ask_json", Answers(**metadata).ask_json)
    with pytest.raises(LogInFailed, match=words):
        await Provider(OpenIdSettings(ISSUER, "console")).begin("https://console/", "")


def test_plain_http_is_for_this_machine() -> None:
    assert check_address("http://127.0.0.1:8080/x", "issuer")
    for url in ("http://login.example.org", "https://", "ftp://x", "https://user@x/"):
        with pytest.raises(BadProvider):
            check_address(url, "issuer")
