"""Callers with a client certificate on the REST proxy of a cluster whose brokers have SASL."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from odradek.client.sync import Admin
from odradek.testing import Cluster
from tests.scenarios.connect_process import until
from tests.scenarios.rest_server import Rest, basic, rest_started
from tests.scenarios.test_platform import odradek

SECRET = "the-proxys-own"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


class Proxy(NamedTuple):
    cluster: Cluster
    rest: Rest
    security: Path

    def ask(
        self, path: str, certificate: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        context = ssl.create_default_context(cafile=self.security / "ca.crt")
        if certificate:
            context.load_cert_chain(self.security / f"{certificate}.pem")
        url = f"https://127.0.0.1:{self.rest.port}{path}"
        request = urllib.request.Request(url, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def tokens(self, owner: str) -> list[Any]:
        with Admin(self.cluster.client_properties) as admin:
            return list(admin.describe_delegation_tokens([f"User:{owner}"]))


def settings_of(cluster: Cluster, security: Path) -> dict[str, str]:
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{security}/ca.crt"}
    return {
        "listeners": "https://127.0.0.1:0",
        "bootstrap.servers": cluster.bootstrap,
        "client.security.protocol": "SASL_SSL",
        "client.sasl.mechanism": "SCRAM-SHA-512",
        **{f"client.{name}": value for name, value in trusted.items()},
        **trusted,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{security}/proxy.pem",
        "ssl.client.authentication": "REQUESTED",
        "ssl.principal.mapping.rules": "RULE:^CN=(user-)?([a-z]+)$/$2/",
        "odradek.tokens.sasl.jaas.config": f'{MODULE} username="proxy" password="{SECRET}";',
        "odradek.tokens.lifetime.ms": "10000",
    }


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    directory = tmp_path_factory.mktemp("certificates")
    data = directory / "data"
    with Cluster(brokers=3, secure=True, data=str(data)) as cluster:
        config = ("--command-config", cluster.client_path, "--bootstrap-server", cluster.bootstrap)
        password = ("--add-config", f"SCRAM-SHA-512=[password={SECRET}]")
        allow = ("acls", "--add", "--allow-principal")
        for words in (
            ("configs", "--alter", "--user", "proxy", *password),
            ("topics", "--create", "--topic", "orders"),
            ("topics", "--create", "--topic", "secrets"),
            (*allow, "User:ada", "--operation", "Read", "--topic", "orders"),
            (*allow, "User:max", "--operation", "Read", "--topic", "secrets"),
            (*allow, "User:proxy", "--operation", "CreateTokens", "--user-principal", "User:ada"),
            (*allow, "User:proxy", "--operation", "CreateTokens", "--user-principal", "User:max"),
        ):
            done = odradek(*words, *config)
            assert done.returncode == 0, done.stderr
        security = data / "security"
        for name in ("proxy", "ada", "user-max", "eve", "B4D"):
            made = odradek(
                "certs", "create", "--dir", str(security), "--name", name, "--host", "127.0.0.1"
            )
            assert made.returncode == 0, made.stderr
        with rest_started(directory, settings_of(cluster, security)) as rest:
            yield Proxy(cluster, rest, security)


def test_brokers_see_the_owner_of_the_certificate(proxy: Proxy) -> None:
    assert proxy.ask("/topics", "ada") == (200, ["orders"])
    # The mapping rule leaves "user-" out; two callers never share a token.
    assert proxy.ask("/topics", "user-max") == (200, ["secrets"])
    (token,) = [one for one in proxy.tokens("ada") if one.renewers]
    assert (token.owner, token.requester) == ("User:ada", "User:proxy")
    assert token.max_ms - token.issued_ms == 10_000
    # The line is written after the answer.
    until(lambda: "ada GET /topics 200" in proxy.rest.log.read_text())


def test_who_shows_no_certificate_of_a_known_user_is_refused(proxy: Proxy) -> None:
    assert proxy.ask("/topics")[0] == 401
    assert proxy.ask("/topics", "B4D")[0] == 401, "no rule says who that is"
    status, said = proxy.ask("/topics", "eve")
    assert (status, said["error_code"]) == (403, 40301)
    assert "its user needs CreateTokens on User:eve" in said["message"]
    # A log-in by password goes first, and is that of a user.
    assert proxy.ask("/topics", "ada", basic("proxy", SECRET)) == (200, [])
    assert proxy.ask("/topics", "ada", basic("ada", "guess"))[0] == 401


def test_a_token_is_replaced_before_it_ends(proxy: Proxy) -> None:
    seen: set[str] = set()
    end_s = time.monotonic() + 40
    # Requests never fail while one token ends and the next one begins.
    while len(seen) < 3:
        assert time.monotonic() < end_s, seen
        assert proxy.ask("/topics", "ada") == (200, ["orders"])
        seen |= {one.token_id for one in proxy.tokens("ada") if one.renewers}


def test_a_wrong_password_of_the_proxy_is_not_blamed_on_the_caller(
    proxy: Proxy, tmp_path: Path
) -> None:
    settings = settings_of(proxy.cluster, proxy.security)
    name = "odradek.tokens.sasl.jaas.config"
    with rest_started(tmp_path, {**settings, name: settings[name].replace(SECRET, "x")}) as rest:
        status, said = proxy._replace(rest=rest).ask("/topics", "ada")
        assert status == 500
        assert "the brokers refuse the log-in odradek.tokens.*" in said["message"]


def test_the_secrets_are_in_no_log(proxy: Proxy) -> None:
    log = proxy.rest.log.read_text()
    assert SECRET not in log
    for token in proxy.tokens("ada"):
        assert token.password not in log


def test_a_stopped_proxy_leaves_no_token(proxy: Proxy, tmp_path: Path) -> None:
    lasting = {"odradek.tokens.lifetime.ms": "3600000"}
    settings = {**settings_of(proxy.cluster, proxy.security), **lasting}
    with rest_started(tmp_path, settings) as rest:
        assert proxy._replace(rest=rest).ask("/topics", "user-max") == (200, ["secrets"])
        assert [one for one in proxy.tokens("max") if one.max_ms - one.issued_ms == 3_600_000]
    assert not [one for one in proxy.tokens("max") if one.max_ms - one.issued_ms == 3_600_000]
