"""TLS and SASL in the settings of a client: who logs in, what is refused, and what is not shown."""

import base64
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from odradek.client.errors import AuthenticationFailed, SettingsError
from odradek.client.login import login_of
from odradek.client.settings import AdminSettings, ProducerSettings
from odradek.world import Randomness

SASL: dict[str, object] = {"security.protocol": "SASL_PLAINTEXT"}
KAFKA = "org.apache.kafka.common.security."
PLAIN = f'{KAFKA}plain.PlainLoginModule required username="ada" password="hunter2";'
SCRAM = f'{KAFKA}scram.ScramLoginModule required username="ada" password="hunter2"'
OAUTH = f"{KAFKA}oauthbearer.OAuthBearerLoginModule required"


async def first_message(config: Mapping[str, object]) -> bytes:
    login = login_of(AdminSettings.from_config({**SASL, **config}), Randomness(1))
    return (await login.exchange("localhost")).first_message()


async def test_the_log_in_is_written_in_a_jaas_line_or_by_name() -> None:
    by_line = await first_message({"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN})
    by_name = await first_message(
        {"sasl.mechanism": "PLAIN", "sasl.username": "ada", "sasl.password": "hunter2"}
    )
    assert by_line == by_name == b"\0ada\0hunter2"


async def test_a_delegation_token_is_marked() -> None:
    config = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": f"{SCRAM} tokenauth=true;"}
    assert (await first_message(config)).endswith(b",tokenauth=true")


async def test_the_log_in_is_in_the_file_that_java_would_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(f"KafkaClient {{ {PLAIN} }};")
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    assert await first_message({"sasl.mechanism": "PLAIN"}) == b"\0ada\0hunter2"
    file.write_text(f"KafkaServer {{ {PLAIN} }};")
    with pytest.raises(SettingsError, match="must have a section KafkaClient"):
        await first_message({"sasl.mechanism": "PLAIN"})
    file.unlink()
    with pytest.raises(SettingsError, match="cannot be read"):
        await first_message({"sasl.mechanism": "PLAIN"})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"sasl.mechanism": "PLAIN"}, "needs a username"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "ada"}, "needs a password"),
        ({"sasl.mechanism": "DIGEST-MD5"}, "must be one of PLAIN, SCRAM-SHA-256"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{SCRAM};"}, "needs PlainLoginModule"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN[:-1]}, "sasl.jaas.config is not"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN, "sasl.username": "ada"},
            "leave one out",
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": 5}, "(hidden)"),
        ({}, "needs to know who logs in"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "needs to know where tokens come from"),
        (
            {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{OAUTH} unsecuredLoginX=1;"},
            "unsecuredLoginStringClaim_sub",
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
            },
            "needs a client id and a secret",
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.login.callback.handler.class": "com.example.Handler",
            },
            "is a Java class, which is not loaded",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.type": "BKS"}, "must be PEM, PKCS12 or JKS"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"}, "is not secure"),
        ({"security.protocol": "SSL", "ssl.context": "x"}, "must be an ssl.SSLContext"),
    ],
)
def test_what_cannot_work_is_refused_when_a_client_is_made(
    config: dict[str, object], said: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        ProducerSettings.from_config({**SASL, **config})
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_secret_is_in_the_repr_of_settings() -> None:
    secrets = {
        "sasl.jaas.config": PLAIN,
        "ssl.keystore.password": "hunter2",
        "ssl.key.password": "hunter2",
        "ssl.truststore.password": "hunter2",
        "ssl.keystore.location": "/a.p12",
        "ssl.truststore.location": "/b.p12",
        "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
    }
    config = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"} | secrets
    settings = AdminSettings.from_properties(config)
    assert settings.sasl_jaas_config == PLAIN
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in repr(login_of(settings, Randomness()))


def test_what_a_protocol_does_not_use_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="odradek.client"):
        ProducerSettings.from_config(
            {
                "security.protocol": "ssl",
                "sasl.username": "ada",
                "ssl.keymanager.algorithm": "IbmX509",
            }
        )
    assert [record.getMessage() for record in caplog.records] == [
        "ssl.keymanager.algorithm has no effect in this client",
        "sasl.username has no effect with security.protocol=SSL",
    ]


# Tokens


def token(**claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2ln"


def oauth(**config: object) -> dict[str, object]:
    named = {f"sasl.{name.replace('_', '.')}": value for name, value in config.items()}
    return SASL | {"sasl.mechanism": "OAUTHBEARER"} | named


async def test_a_client_for_tests_makes_its_own_token() -> None:
    options = (
        'unsecuredLoginStringClaim_sub="ada" unsecuredLoginNumberClaim_n="1.5"'
        ' unsecuredLoginListClaim_scope="|a|b" unsecuredLoginExtension_trace="x"'
    )
    message = await first_message(oauth(jaas_config=f"{OAUTH} {options};"))
    made = message.partition(b"Bearer ")[2].partition(b"\1")[0].decode()
    claims = json.loads(base64.urlsafe_b64decode(made.split(".")[1] + "=="))
    assert (claims["sub"], claims["n"], claims["scope"]) == ("ada", 1.5, ["a", "b"])
    assert claims["exp"] - claims["iat"] == 3600
    assert made.endswith(".")
    assert b"\1trace=x\1" in message


class Provider:
    def token(self) -> str:
        return "from.the.provider"


async def later() -> str:
    return "from.a.coroutine"


@pytest.mark.parametrize(
    ("callback", "shown"),
    [
        (lambda: "a.b.c", b"a.b.c"),
        (lambda: ("a.b.c", 1.0), b"a.b.c"),
        (lambda: ("a.b.c", 1.0, "ada", {"trace": "x"}), b"a.b.c\1trace=x"),
        (Provider, b"from.the.provider"),
        (Provider(), b"from.the.provider"),
        (later, b"from.a.coroutine"),
        (f"{__name__}:Provider", b"from.the.provider"),
    ],
)
async def test_a_function_of_the_program_gives_the_token(callback: object, shown: bytes) -> None:
    message = await first_message(oauth(login_callback_handler_class=callback))
    assert message == b"n,,\1auth=Bearer " + shown + b"\1\1"


async def test_a_token_is_used_until_most_of_its_life_is_over() -> None:
    calls: list[float] = []
    expires: list[float] = [4_000_000_000, 1.0]

    def issue() -> str:
        calls.append(1)
        return token(exp=expires[min(len(calls) - 1, 1)])

    settings = AdminSettings.from_config(oauth(login_callback_handler_class=issue))
    login = login_of(settings, Randomness())
    for _ in range(3):
        await login.exchange("localhost")
    assert len(calls) == 1, "it is still good for long"
    calls.append(1)
    late = login_of(settings, Randomness())
    for _ in range(3):
        await late.exchange("localhost")
    assert len(calls) == 5, "one that has expired is asked for again"


@pytest.mark.parametrize("answer", [None, 5, ("a.b.c",), "not a token", "a\1b"])
async def test_a_function_that_gives_no_token_fails_the_log_in(answer: Any) -> None:
    with pytest.raises(AuthenticationFailed):
        await first_message(oauth(login_callback_handler_class=lambda: answer))


async def test_a_token_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token.jwt"
    file.write_text("a.b.c\n")
    url = f"file://{file}"
    assert b"Bearer a.b.c\1" in await first_message(oauth(oauthbearer_token_endpoint_url=url))
