"""The broker's side of PLAIN and SCRAM: who is let in, and what a failure tells."""

import base64
import hashlib
import hmac
from collections.abc import Awaitable

import pytest

from odradek.security.sasl.server.exchange import Login, LoginFailed, ServerExchange, Step
from odradek.security.sasl.server.plain import JaasUsers, Plain
from odradek.security.sasl.server.scram import Account, Scram, UnknownUser
from odradek.security.scram import ScramCredential, ScramMechanism

SHA = ScramMechanism.SHA_256


def respond(exchange: ServerExchange, token: bytes) -> Step:
    step = exchange.respond(token)
    assert isinstance(step, Step)
    return step


def failure(exchange: ServerExchange, token: bytes) -> LoginFailed:
    with pytest.raises(LoginFailed) as failed:
        respond(exchange, token)
    return failed.value


PLAIN = Plain(JaasUsers({"user_alice": "secret", "user_empty": "", "username": "own"}))


def test_plain() -> None:
    assert respond(PLAIN.begin(), b"\0alice\0secret") == Step(b"", Login("alice"))
    assert respond(PLAIN.begin(), b"alice\0alice\0secret").login == Login("alice")


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0nobody\0secret", b"\0own\0own"])
def test_plain_says_the_same_of_names_and_passwords(token: bytes) -> None:
    told = failure(PLAIN.begin(), token).told
    assert told == "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    "token",
    [b"", b"\0alice", b"\0\0secret", b"\0alice\0", b"\0empty\0", b"\xff\0a\0b", b"\0a\0b\0c"],
)
def test_plain_refuses_what_is_malformed_or_empty(token: bytes) -> None:
    assert failure(PLAIN.begin(), token).told == ""


def test_plain_lets_nobody_be_somebody_else() -> None:
    assert "authorization id" in failure(PLAIN.begin(), b"bob\0alice\0secret").told


async def test_a_checker_may_answer_later() -> None:
    class Later:
        async def check(self, name: str, password: str) -> Login | None:
            return Login(name, groups=("ops",)) if password == "yes" else None

    step = Plain(Later()).begin().respond(b"\0alice\0yes")
    assert isinstance(step, Awaitable)
    assert (await step).login == Login("alice", groups=("ops",))
    refused = Plain(Later()).begin().respond(b"\0alice\0no")
    assert isinstance(refused, Awaitable)
    with pytest.raises(LoginFailed):
        await refused


# SCRAM, with a client that is written out here

SALT, ITERATIONS = b"some salt", 4096
SALTED = hashlib.pbkdf2_hmac("sha256", b"secret", SALT, ITERATIONS)
STORED = {"alice": ScramCredential.derive(SHA, ITERATIONS, SALT, SALTED)}


def find_account(name: str, is_token: bool) -> Account | UnknownUser:
    found = STORED.get(name)
    if found is None or is_token:
        return UnknownUser(f"the salt of {name}".encode())
    return Account(found, Login(name))


def scram() -> Scram:
    counter = iter(range(1, 100))
    return Scram(SHA, find_account, lambda length: next(counter).to_bytes(length, "big"))


def final(first_bare: str, challenge: str, bare: str, salted: bytes = SALTED) -> bytes:
    message = f"{first_bare},{challenge},{bare}".encode()
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{bare},p={base64.b64encode(proof).decode()}".encode()


def nonce_of(challenge: str) -> str:
    return challenge.split(",", maxsplit=1)[0].removeprefix("r=")


def test_scram() -> None:
    exchange = scram().begin()
    challenge = respond(exchange, b"n,,n=alice,r=abc").reply.decode()
    assert challenge.startswith("r=abc")
    assert challenge.endswith(f",s={base64.b64encode(SALT).decode()},i=4096")
    bare = f"c=biws,r={nonce_of(challenge)}"
    step = respond(exchange, final("n=alice,r=abc", challenge, bare))
    assert step.login == Login("alice")
    message = f"n=alice,r=abc,{challenge},{bare}".encode()
    signature = hmac.digest(STORED["alice"].server_key, message, "sha256")
    assert step.reply == b"v=" + base64.b64encode(signature)


def test_an_unknown_user_is_answered_like_a_wrong_password() -> None:
    mechanism = scram()
    answers = []
    for user in ("alice", "nobody"):
        exchange = mechanism.begin()
        challenge = respond(exchange, f"n,,n={user},r=abc".encode()).reply.decode()
        bare = f"c=biws,r={nonce_of(challenge)}"
        told = failure(exchange, final(f"n={user},r=abc", challenge, bare, b"wrong" * 8)).told
        shape = [part.split("=")[0] for part in challenge.split(",")]
        answers.append((shape, challenge.split(",")[2], told))
    assert answers[0] == answers[1]
    again = [respond(mechanism.begin(), b"n,,n=nobody,r=x").reply.split(b",")[1] for _ in range(2)]
    assert again[0] == again[1], "the salt of an unknown user must not change"


def test_a_proof_of_an_unknown_user_never_counts() -> None:
    exchange = scram().begin()
    challenge = respond(exchange, b"n,,n=nobody,r=abc").reply.decode()
    bare = f"c=biws,r={nonce_of(challenge)}"
    failure(exchange, final("n=nobody,r=abc", challenge, bare))


def test_the_nonce_may_repeat_the_half_of_the_client_as_librdkafka_writes_it() -> None:
    """librdkafka before 2.6.1, in the kcat of Debian 12 for instance, sends `r=abcabcBROKER`."""
    exchange = scram().begin()
    challenge = respond(exchange, b"n,,n=alice,r=abc").reply.decode()
    bare = f"c=biws,r=abc{nonce_of(challenge)}"
    assert respond(exchange, final("n=alice,r=abc", challenge, bare)).login is not None


@pytest.mark.parametrize("made", ["{0}abc", "xyz{0}", "abcabc{0}", "abc", "{1}"])
def test_no_other_nonce_is_accepted(made: str) -> None:
    exchange = scram().begin()
    challenge = respond(exchange, b"n,,n=alice,r=abc").reply.decode()
    nonce = nonce_of(challenge)
    bare = f"c=biws,r={made.format(nonce, nonce.removeprefix('abc'))}"
    said = failure(exchange, final("n=alice,r=abc", challenge, bare))
    assert "nonce" in str(said)


def test_a_recorded_exchange_cannot_be_sent_again() -> None:
    mechanism = scram()
    first = mechanism.begin()
    challenge = respond(first, b"n,,n=alice,r=abc").reply.decode()
    recorded = final("n=alice,r=abc", challenge, f"c=biws,r={nonce_of(challenge)}")
    assert respond(first, recorded).login is not None
    second = mechanism.begin()
    respond(second, b"n,,n=alice,r=abc")
    assert "nonce" in str(failure(second, recorded))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=alice",
        b"n,,n=al=ice,r=abc",
        b"n,a=bob,n=alice,r=abc",
        b"\xff\xfe",
    ],
)
def test_scram_refuses_malformed_beginnings(first: bytes) -> None:
    failure(scram().begin(), first)


@pytest.mark.parametrize(
    "end", [b"", b"c=biws,r=x", b"c=xxxx,r={nonce},p=AAAA", b"c=biws,r={nonce},p=@@", b"\xff"]
)
def test_scram_refuses_malformed_ends(end: bytes) -> None:
    exchange = scram().begin()
    challenge = respond(exchange, b"n,,n=alice,r=abc").reply.decode()
    failure(exchange, end.replace(b"{nonce}", nonce_of(challenge).encode()))


@pytest.mark.parametrize("more", [b"," * 500_000, b",a=b" * 120_000])
def test_a_message_of_half_a_megabyte_is_not_taken_apart(more: bytes) -> None:
    """It would take a tenth of a second, in which nobody else is served."""
    assert str(failure(scram().begin(), b"n,,n=alice,r=abc" + more)).endswith("too long")
    exchange = scram().begin()
    respond(exchange, b"n,,n=alice,r=abc")
    assert str(failure(exchange, b"c=biws,r=abc" + more)).endswith("too long")
    assert str(failure(PLAIN.begin(), b"\0alice\0" + more)).endswith("too long")
