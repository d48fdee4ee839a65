"""Every way in which a log-in can fail: Kafka's error, after the delay where Kafka has one, while
other clients are served. One row of the table is one way."""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from odradek.broker import Broker
from odradek.client.admin.users import ScramUpsertion
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from odradek.security.sasl.client.scram import ScramExchange, ScramUser
from odradek.security.scram import ScramMechanism
from odradek.world import World
from tests.certificates import PASSWORD, Authority
from tests.unit.broker.authentication.test_tls_listeners import client
from tests.unit.broker.authentication.wire import Wire, listener, wire
from tests.unit.broker.harness import serving_on_sockets

DELAY_S: Final = 0.3
MODULES = "org.apache.kafka.common.security."
UNSECURED = f"{MODULES}oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
SASL: Mapping[str, str] = {
    **listener(
        "SASL_PLAINTEXT",
        sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        plain_sasl_jaas_config=f'{MODULES}plain.PlainLoginModule required user_alice="secret";',
        scram__sha__256_sasl_jaas_config=f"{MODULES}scram.ScramLoginModule required;",
        oauthbearer_sasl_jaas_config=f"{MODULES}oauthbearer.OAuthBearerLoginModule required;",
        oauthbearer_sasl_server_callback_handler_class=UNSECURED,
    ),
    "connection.failed.authentication.delay.ms": str(round(DELAY_S * 1000)),
    "delegation.token.secret.key": "a secret of all brokers",
}
PLAIN_REFUSED = "Authentication failed: Invalid username or password"
SCRAM_REFUSED = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism"
    " SCRAM-SHA-256"
)


class Refusal(NamedTuple):
    """What a client is told: the code and message of the last answer, or None if the connection was
    closed without one."""

    code: ErrorCode | None
    message: str | None = None


Attempt = Callable[[Wire], Awaitable[Refusal]]


def plain(token: str) -> Attempt:
    async def attempt(client: Wire) -> Refusal:
        await client.handshake("PLAIN")
        answer = await client.authenticate(token.encode())
        return Refusal(ErrorCode(answer.error_code), answer.error_message)

    return attempt


async def old_plain(client: Wire) -> Refusal:
    await client.handshake("PLAIN", version=0)
    await client.send_frame(b"\0alice\0wrong")
    assert await client.is_closed()
    return Refusal(None)


def scram(name: str, *, by_token: bool = False) -> Attempt:
    async def attempt(client: Wire) -> Refusal:
        await client.handshake("SCRAM-SHA-256")
        user = ScramUser(ScramMechanism.SHA_256, name, "wrong", has_token=by_token)
        exchange = ScramExchange(user, bytes(24))
        challenge = await client.authenticate(exchange.first_message())
        assert not challenge.error_code, "an unknown user or token gets a challenge too"
        proof = exchange.reply(bytes(challenge.auth_bytes))
        assert proof is not None
        answer = await client.authenticate(proof)
        return Refusal(ErrorCode(answer.error_code), answer.error_message)

    return attempt


def scram_with(first: str) -> Attempt:
    async def attempt(client: Wire) -> Refusal:
        await client.handshake("SCRAM-SHA-256")
        answer = await client.authenticate(first.encode())
        return Refusal(ErrorCode(answer.error_code), answer.error_message)

    return attempt


def bearer(header: Mapping[str, object], claims: Mapping[str, object], key: bytes = b"") -> Attempt:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (header, claims)
    ]
    signature = hmac.new(key, b".".join(parts), hashlib.sha256).digest() if key else b""
    token = b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")])

    async def attempt(client: Wire) -> Refusal:
        await client.handshake("OAUTHBEARER")
        first = await client.authenticate(b"n,,\x01auth=Bearer " + token + b"\x01\x01")
        assert not first.error_code
        assert json.loads(bytes(first.auth_bytes))["status"] == "invalid_token"
        answer = await client.authenticate(b"\x01")
        return Refusal(ErrorCode(answer.error_code))

    return attempt


async def unknown_mechanism(client: Wire) -> Refusal:
    answer = await client.handshake("CRAM-MD5")
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]
    return Refusal(ErrorCode(answer.error_code))


async def hello_of_tls(client: Wire) -> Refusal:
    client.writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506))
    assert await client.is_closed()
    return Refusal(None)


async def make_user(client: Wire) -> None:
    """Gives ada a password for SCRAM."""
    ada = ScramUpsertion.of_password("ada", "secret", ScramMechanism.SHA_256)
    upsertion = ScramCredentialUpsertion(
        name=ada.user,
        mechanism=ada.mechanism,
        iterations=ada.iterations,
        salt=ada.salt,
        salted_password=ada.salted_password,
    )
    await client.send(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
    # The header of a flexible answer ends with its tags.
    answer = AlterUserScramCredentialsResponse.decode(await client.receive_frame(), 0, 5)
    assert [(one.user, one.error_code) for one in answer.results] == [("ada", 0)]


_FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
_NOW = int(time.time())
_CLAIMS = {"sub": "alice", "iat": _NOW, "exp": _NOW + 600}

# What a client does, what it is told, and whether that comes after the delay.
TABLE: dict[str, tuple[Attempt, Refusal, bool]] = {
    "PLAIN, password": (plain("\0alice\0wrong"), Refusal(_FAILED, PLAIN_REFUSED), True),
    "PLAIN, user": (plain("\0nobody\0secret"), Refusal(_FAILED, PLAIN_REFUSED), True),
    "PLAIN before 1.0": (old_plain, Refusal(None), True),
    "SCRAM, password": (scram("ada"), Refusal(_FAILED, SCRAM_REFUSED), True),
    "SCRAM, user": (scram("nobody"), Refusal(_FAILED, SCRAM_REFUSED), True),
    "delegation token": (
        scram("AAAAAAAAAAAAAAAAAAAAAA", by_token=True),
        Refusal(_FAILED, SCRAM_REFUSED),
        True,
    ),
    "user as a delegation token": (
        scram("ada", by_token=True),
        Refusal(_FAILED, SCRAM_REFUSED),
        True,
    ),
    "PLAIN, malformed": (plain("secret"), Refusal(_FAILED), True),
    "SCRAM, malformed": (scram_with("y,,n=ada,r=abc"), Refusal(_FAILED, SCRAM_REFUSED), True),
    "token, expired": (
        bearer({"alg": "none"}, {**_CLAIMS, "iat": 1, "exp": 2}),
        Refusal(_FAILED),
        True,
    ),
    "token, signed": (bearer({"alg": "HS256"}, _CLAIMS, b"a public key"), Refusal(_FAILED), True),
    "token, without a user": (bearer({"alg": "none"}, {"exp": _NOW + 9}), Refusal(_FAILED), True),
    "mechanism": (unknown_mechanism, Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM), False),
    "TLS to a plain port": (hello_of_tls, Refusal(None), False),
}


@pytest.mark.parametrize("name", TABLE)
async def test_a_log_in_that_fails_by_sasl(name: str) -> None:
    attempt, expected, is_delayed = TABLE[name]
    async with (
        serving_on_sockets(SASL) as broker,
        wire(broker) as attacker,
        wire(broker) as good,
    ):
        assert await good.log_in() == 0
        await make_user(good)
        begun_s = time.monotonic()
        failing = asyncio.ensure_future(attempt(attacker))
        if is_delayed:
            async with wire(broker) as newcomer:
                assert await newcomer.log_in() == 0
            assert (await good.metadata()).brokers
            assert not failing.done(), "others must not wait for it"
        refusal = await failing
        if is_delayed:
            assert time.monotonic() - begun_s >= DELAY_S - 0.01
        assert refusal.code == expected.code
        if expected.message is not None:
            assert refusal.message == expected.message
        assert await attacker.is_closed()
        assert (await good.metadata()).brokers


AUTHORITY = Authority()
STRANGER = Authority("another CA")

# A client's certificate; None: it shows none.
CERTIFICATES: dict[str, Callable[[], ssl.SSLContext]] = {
    "none": lambda: client(authority=AUTHORITY),
    "of another authority": lambda: client(STRANGER.issue("Alice"), AUTHORITY),
    "expired": lambda: client(AUTHORITY.issue("Alice", expired=True), AUTHORITY),
}


@pytest.mark.parametrize("name", [*CERTIFICATES, "plain text"])
async def test_a_log_in_that_fails_by_tls(name: str, tmp_path: Path) -> None:
    keystore = AUTHORITY.issue("server").keystore(tmp_path / "keys.p12")
    properties = {
        **listener(
            "SSL",
            ssl_keystore_location=str(keystore),
            ssl_keystore_password=PASSWORD,
            ssl_client_auth="required",
            ssl_truststore_certificates=AUTHORITY.pem,
        ),
        "log.dirs": str(tmp_path / "data"),
    }
    async with (
        serving_on_sockets(properties, World()) as broker,
        wire(broker, client(AUTHORITY.issue("Alice"), AUTHORITY)) as good,
    ):
        if name == "plain text":
            async with wire(broker) as refused:
                await refused.send_frame(b"\x00\x12\x00\x00\x00\x00\x00\x07\x00\x00")
                assert await refused.is_closed_after_alert()
        else:
            await refused_by_alert(broker, CERTIFICATES[name]())
        assert (await good.metadata()).brokers


async def refused_by_alert(broker: Broker, context: ssl.SSLContext) -> None:
    """With TLS 1.3 a client learns it at its first request."""
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)) as refused:
        async with wire(broker, context) as attacker:
            await attacker.versions()
    if isinstance(refused.value, ssl.SSLError):
        assert "ALERT" in str(refused.value.reason), "the client is told why"
