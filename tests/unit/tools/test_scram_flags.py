"""SCRAM credentials of flags, as Kafka's tools take them."""

import base64

import pytest

from odradek.cli.topics.configs import parse_added
from odradek.security.scram import ScramMechanism, salted_password
from odradek.tools.failures import UsageError
from odradek.tools.scram_flags import credential_of_config, credential_of_flag


@pytest.mark.parametrize(
    ("written", "iterations", "password"),
    [
        ("[password=secret]", 4096, "secret"),
        ("[iterations=8192,password=secret]", 8192, "secret"),
        ("[password=a,b=c d]", 4096, "a,b=c d"),
        ("[password=x[1]]", 4096, "x[1]"),
        ("password=secret", 4096, "secret"),
    ],
)
def test_a_password_of_configs(written: str, iterations: int, password: str) -> None:
    ((name, value),) = parse_added(f"SCRAM-SHA-256={written}").items()
    made = credential_of_config("ada", ScramMechanism.SHA_256, value)
    assert name == "SCRAM-SHA-256"
    assert made.iterations == iterations
    expected = salted_password(ScramMechanism.SHA_256, password, made.salt, iterations)
    assert made.salted_password == expected
    assert password not in repr(made)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "[secret]",
        "[password=]",
        "[iterations=1,password=x]",
        "[iterations=x,y]",
        "[password=secret,iterations=8192]",
    ],
)
def test_what_is_no_password_is_refused(written: str) -> None:
    with pytest.raises(UsageError):
        credential_of_config("ada", ScramMechanism.SHA_512, written.strip("[]"))


@pytest.mark.parametrize(
    "written",
    [
        "SCRAM-SHA-512=[name=ada,password=secret]",
        'SCRAM-SHA-512=[name="ada",iterations=8192,password="secret"]',
        "SCRAM-SHA-512=[name=ada,password=se,cr=et]",
    ],
)
def test_a_user_of_storage_format(written: str) -> None:
    made = credential_of_flag(written)
    assert (made.user, made.mechanism) == ("ada", ScramMechanism.SHA_512)
    password = written.rpartition("password=")[2].rstrip("]").strip('"')
    assert made.salted_password == salted_password(
        made.mechanism, password, made.salt, made.iterations
    )


def test_a_user_of_storage_format_with_a_salted_password() -> None:
    salt, salted = (base64.b64encode(text).decode() for text in (b"salt", b"salted"))
    made = credential_of_flag(
        f'SCRAM-SHA-256=[name=ada,iterations=8192,salt="{salt}",saltedpassword="{salted}"]'
    )
    assert made == ("ada", ScramMechanism.SHA_256, 8192, b"salt", b"salted")


@pytest.mark.parametrize(
    "written",
    [
        "PLAIN=[name=ada,password=hidden]",
        "SCRAM-SHA-512=name=ada,password=hidden",
        "SCRAM-SHA-512=[password=hidden]",
        "SCRAM-SHA-512=[name=ada]",
        "SCRAM-SHA-512=[name=ada,iterations=5,password=hidden]",
        "SCRAM-SHA-512=[name=ada,salt=AAAA,password=hidden]",
        "SCRAM-SHA-512=[name=ada,salt=!,saltedpassword=hidden]",
        "SCRAM-SHA-512=[name=ada,nonsense=5,password=hidden]",
    ],
)
def test_what_is_no_user_is_refused_without_showing_it(written: str) -> None:
    with pytest.raises(UsageError) as refused:
        credential_of_flag(written)
    assert "hidden" not in str(refused.value)
