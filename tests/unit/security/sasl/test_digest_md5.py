"""DIGEST-MD5 with the example of RFC 2831, section 4, and servers that cheat."""

import pytest

from odradek.security.sasl.client.digest_md5 import DigestMd5Exchange
from odradek.security.sasl.client.exchange import SaslFailed

CHALLENGE = (
    b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,'
    b"charset=utf-8"
)


def exchange() -> DigestMd5Exchange:
    found = DigestMd5Exchange("chris", "secret", "imap/elwood.innosoft.com", bytes(20))
    found._nonce = "OA6MHXh6VqTrRk"
    return found


def test_the_example_of_the_rfc() -> None:
    client = exchange()
    assert client.first_message() == b""
    answer = client.reply(CHALLENGE)
    assert answer is not None
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer
    assert b'username="chris",realm="elwood.innosoft.com"' in answer
    assert b"secret" not in answer
    assert client.reply(b"rspauth=ea40f60335c427b5527b84dbabcdfffd") is None
    assert client.is_complete


def test_names_are_quoted() -> None:
    client = DigestMd5Exchange('a"b\\c', "secret", "x/y", bytes(20))
    answer = client.reply(CHALLENGE)
    assert answer is not None
    assert rb'username="a\"b\\c"' in answer


@pytest.mark.parametrize("proof", [b"", b"rspauth=", b"rspauth=ea40f60335c427b5527b84dbabcdfffe"])
def test_a_server_that_does_not_know_the_password(proof: bytes) -> None:
    client = exchange()
    client.reply(CHALLENGE)
    with pytest.raises(SaslFailed, match="cannot prove"):
        client.reply(proof)
    assert not client.is_complete


@pytest.mark.parametrize(
    "challenge",
    [b"", b"\xff", b'realm="x"', b'nonce="x",algorithm=md5', b'nonce="x",qop="auth-conf"'],
)
def test_challenges_that_are_not_answered(challenge: bytes) -> None:
    with pytest.raises(SaslFailed):
        exchange().reply(challenge)


@pytest.mark.parametrize(("user", "password"), [("", "x"), ("x", "")])
def test_credentials_that_are_missing(user: str, password: str) -> None:
    with pytest.raises(SaslFailed, match="needs a username and a password"):
        DigestMd5Exchange(user, password, "x/y", bytes(20))
