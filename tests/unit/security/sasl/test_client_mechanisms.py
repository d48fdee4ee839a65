"""The client's mechanisms: the examples of their RFCs, and brokers that are not honest."""

import base64
import hashlib
import hmac

import pytest

from odradek.security.sasl.client.exchange import SaslFailed
from odradek.security.sasl.client.oauthbearer import OAuthBearerExchange
from odradek.security.sasl.client.plain import PlainExchange
from odradek.security.sasl.client.scram import MAX_ITERATIONS, ScramExchange, ScramUser
from odradek.security.scram import ScramMechanism

# The example of RFC 7677.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
SERVER_FIRST = f"r={SERVER_NONCE},s={SALT},i=4096"
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(username: str = "user", *, has_token: bool = False) -> ScramExchange:
    user = ScramUser(ScramMechanism.SHA_256, username, "pencil", has_token=has_token)
    return ScramExchange(user, base64.b64decode(NONCE))


def test_scram_speaks_as_its_rfc_shows() -> None:
    exchange = scram()
    assert exchange.mechanism == "SCRAM-SHA-256"
    assert exchange.first_message().decode() == f"n,,n=user,r={NONCE}"
    proof = exchange.reply(SERVER_FIRST.encode())
    assert proof == (
        f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    assert not exchange.is_complete
    assert exchange.reply(SERVER_FINAL.encode()) is None
    assert exchange.is_complete


def test_scram_with_sha_512_proves_what_a_server_can_check() -> None:
    user = ScramUser(ScramMechanism.SHA_512, "ada", "pass wörd")
    exchange = ScramExchange(user, bytes(24))
    first = exchange.first_message().decode().removeprefix("n,,")
    salt, nonce = b"salt", f"{first.partition('r=')[2]}xyz"
    challenge = f"r={nonce},s={base64.b64encode(salt).decode()},i=4096"
    final = (exchange.reply(challenge.encode()) or b"").decode()
    without_proof, _, proof = final.rpartition(",p=")
    # What the server does with its stored key.
    salted = hashlib.pbkdf2_hmac("sha512", "pass wörd".encode(), salt, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    signed = f"{first},{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.sha512(client_key).digest(), signed, "sha512")
    assert bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True)) == (
        client_key
    )
    mine = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), signed, "sha512")
    exchange.reply(f"v={base64.b64encode(mine).decode()}".encode())
    assert exchange.is_complete


def test_scram_escapes_names_and_marks_delegation_tokens() -> None:
    assert scram("a=b,c").first_message().decode() == f"n,,n=a=3Db=2Cc,r={NONCE}"
    assert scram("id", has_token=True).first_message().decode().endswith(",tokenauth=true")


def test_the_costly_part_of_scram_is_computed_once_for_a_salt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = ScramUser(ScramMechanism.SHA_256, "user", "pencil")
    first = user.salted_password(b"salt", 4096)
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", None)
    assert user.salted_password(b"salt", 4096) == first


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (f"r=other%hv,s={SALT},i=4096", "nonce"),
        (f"r={NONCE},s={SALT},i=4096", "nonce"),
        (f"r={SERVER_NONCE},s={SALT},i=4095", "iterations"),
        (f"r={SERVER_NONCE},s={SALT},i=1", "iterations"),
        (f"r={SERVER_NONCE},s={SALT},i=-4096", "iterations"),
        (f"r={SERVER_NONCE},s={SALT},i=", "iterations"),
        (f"r={SERVER_NONCE},s={SALT},i={MAX_ITERATIONS + 1}", "iterations"),
        (f"r={SERVER_NONCE},s={SALT},i={'9' * 400_000}", "iterations"),
        (f"r={SERVER_NONCE},s=,i=4096", "empty salt"),
        (f"r={SERVER_NONCE},s=***,i=4096", "not base64"),
        (f"m=x,r={SERVER_NONCE},s={SALT},i=4096", "malformed"),
        (f"s={SALT},r={SERVER_NONCE},i=4096", "malformed"),
        ("", "malformed"),
        (",,,", "malformed"),
        (b"\xff\xfe", "not text"),
    ],
)
def test_scram_refuses_a_broker_that_does_not_keep_the_rules(
    challenge: str | bytes, said: str
) -> None:
    exchange = scram()
    exchange.first_message()
    with pytest.raises(SaslFailed, match=said) as caught:
        exchange.reply(challenge if isinstance(challenge, bytes) else challenge.encode())
    assert len(str(caught.value)) < 300
    assert not exchange.is_complete


@pytest.mark.parametrize(
    ("final", "said"),
    [
        ("v=" + base64.b64encode(bytes(32)).decode(), "cannot prove"),
        ("v=", "cannot prove"),
        ("v=*", "not base64"),
        ("e=other-error", "refused the log-in: 'other-error'"),
        ("", "malformed"),
        ("p=abc", "malformed"),
    ],
)
def test_scram_refuses_a_broker_that_cannot_sign(final: str, said: str) -> None:
    exchange = scram()
    exchange.first_message()
    exchange.reply(SERVER_FIRST.encode())
    with pytest.raises(SaslFailed, match=said):
        exchange.reply(final.encode())
    assert not exchange.is_complete


def test_plain_sends_name_and_password() -> None:
    exchange = PlainExchange("ada", "pass wörd")
    assert exchange.first_message() == "\0ada\0pass wörd".encode()
    assert exchange.reply(b"") is None
    assert exchange.is_complete


def test_plain_takes_no_data_from_a_broker() -> None:
    exchange = PlainExchange("ada", "x")
    with pytest.raises(SaslFailed, match="answered PLAIN with data"):
        exchange.reply(b"x")


@pytest.mark.parametrize(("name", "password"), [("", "x"), ("x", ""), ("a\0b", "x"), ("a", "\0")])
def test_plain_refuses_what_it_cannot_carry(name: str, password: str) -> None:
    with pytest.raises(SaslFailed):
        PlainExchange(name, password)


def test_oauthbearer_shows_the_token_and_its_extensions() -> None:
    exchange = OAuthBearerExchange("a.b.c", {"traceId": "123"})
    assert exchange.first_message() == b"n,,\x01auth=Bearer a.b.c\x01traceId=123\x01\x01"
    assert exchange.reply(b"") is None
    assert exchange.is_complete


def test_oauthbearer_hears_why_a_token_was_refused() -> None:
    exchange = OAuthBearerExchange("a.b.c")
    assert exchange.reply(b'{"status":"invalid_token"}') == b"\x01"
    assert not exchange.is_complete
    with pytest.raises(SaslFailed, match="invalid_token"):
        exchange.reply(b"")
    assert not exchange.is_complete


@pytest.mark.parametrize(
    ("token", "extensions"),
    [
        ("", {}),
        ("a b", {}),
        ("a\x01auth=Bearer b", {}),
        ("a.b.c", {"auth": "x"}),
        ("a.b.c", {"a1": "x"}),
        ("a.b.c", {"a": "x\x01y"}),
    ],
)
def test_oauthbearer_refuses_what_would_break_its_message(
    token: str, extensions: dict[str, str]
) -> None:
    with pytest.raises(SaslFailed):
        OAuthBearerExchange(token, extensions)


def test_no_exchange_shows_a_secret() -> None:
    shown = [
        repr(PlainExchange("ada", "hunter2")),
        repr(ScramUser(ScramMechanism.SHA_256, "ada", "hunter2")),
        repr(ScramExchange(ScramUser(ScramMechanism.SHA_256, "ada", "hunter2"), bytes(24))),
        repr(OAuthBearerExchange("hunter2")),
    ]
    assert "hunter2" not in "".join(shown)
