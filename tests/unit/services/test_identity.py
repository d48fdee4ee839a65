"""Who a request is from."""

import base64

import pytest

from odradek.security.jaas import parse_jaas_config
from odradek.services.identity import NOBODY, Caller, Kind, authorization_of, caller_of
from odradek.services.tokens import token_log_in

BY_DELEGATION = Caller(Kind.DELEGATION_TOKEN, "id", "hmac")


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (None, NOBODY),
        (basic("ada:secret"), Caller(Kind.PASSWORD, "ada", "secret")),
        (basic("ada:b:c"), Caller(Kind.PASSWORD, "ada", "b:c")),
        ("Bearer a.b.c", Caller(Kind.TOKEN, "token", "a.b.c")),
        (basic("ada"), None),
        (basic("ada:"), None),
        (basic(":secret"), None),
        (basic("ada\x00eve:secret"), None),
        ("Basic ###", None),
        ("Bearer ", None),
        ("Bearer " + "x" * 70_000, None),
        ("Digest x", None),
        (basic("id:hmac").replace("Basic", "DelegationToken"), BY_DELEGATION),
        (basic("id:").replace("Basic", "DelegationToken"), None),
        ("DelegationToken ###", None),
        ("", None),
    ],
)
def test_the_header_says_who_asks(authorization: str | None, expected: Caller | None) -> None:
    assert caller_of(authorization) == expected


@pytest.mark.parametrize(
    "caller",
    [Caller(Kind.PASSWORD, "ada", "s:cret"), Caller(Kind.TOKEN, "token", "a.b"), BY_DELEGATION],
)
def test_one_service_reads_what_another_shows(caller: Caller) -> None:
    assert caller_of(authorization_of(caller)) == caller
    assert authorization_of(NOBODY) == authorization_of(Caller(Kind.CERTIFICATE, "CN=a")) == ""


def test_a_secret_is_never_shown() -> None:
    caller = caller_of(basic("ada:s3cret"))
    assert caller is not None
    assert "s3cret" not in repr(caller)


def test_a_certificate_has_the_name_that_brokers_give_it() -> None:
    peer = {"subject": ((("organizationName", "Ops"),), (("commonName", "ada"),))}
    assert caller_of(None, peer) == Caller(Kind.CERTIFICATE, "CN=ada,O=Ops")
    assert caller_of(basic("eve:x"), peer) == Caller(Kind.PASSWORD, "eve", "x")
    # A comma within a value does not begin another attribute, which a mapping rule might trust.
    hostile = {"subject": ((("commonName", "ada,O=Ops"),),)}
    assert caller_of(None, hostile) == Caller(Kind.CERTIFICATE, "CN=ada\\,O=Ops")


@pytest.mark.parametrize(
    ("token_id", "secret"),
    [
        ("victim", 'hmac" username="own'),
        ("victim", "hmac\\"),
        ('own" password="x', "hmac"),
        ("victim", 'hmac" tokenauth="false" x="'),
    ],
)
def test_what_a_caller_sends_stays_one_name_and_one_secret(token_id: str, secret: str) -> None:
    """Or a caller could log in at the brokers with a token of its own, and be taken for the caller
    of another one, whose consumer instances it could use."""
    properties = token_log_in(token_id, secret, "SCRAM-SHA-256")
    options = parse_jaas_config(str(properties["sasl.jaas.config"])).options
    assert options == {"username": token_id, "password": secret, "tokenauth": "true"}
