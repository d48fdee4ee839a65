"""console.properties: what is obeyed, and what is refused with a reason."""

from pathlib import Path

import pytest

from odradek.client.errors import SettingsError
from odradek.config import parse_properties
from odradek.console.clusters import Cluster
from odradek.console.settings import ConsoleSettings
from odradek.services.client_pool import ClientPool
from odradek.services.with_registry import WithRegistry

ROOT = Path(__file__).parents[3]

SASL = {"client.security.protocol": "SASL_SSL", "client.sasl.mechanism": "OAUTHBEARER"}
OPENID = {**SASL, "odradek.openid.issuer": "https://x", "odradek.openid.client.id": "console"}


def test_several_clusters() -> None:
    settings = ConsoleSettings.from_file(
        {
            "bootstrap.servers": "a:9092",
            "odradek.cluster.name": "test",
            "cluster.prod.bootstrap.servers": "b:9092",
            "cluster.prod.client.security.protocol": "SASL_SSL",
            "cluster.prod.client.sasl.mechanism": "SCRAM-SHA-512",
            "cluster.prod.odradek.read.only": "true",
        }
    )
    test, prod = settings.clusters().values()
    assert list(settings.clusters()) == ["test", "prod"]
    assert (test.uses_sasl, prod.uses_sasl) == (False, True)
    assert (test.odradek_read_only, prod.odradek_read_only) == (False, True)
    assert prod.client_properties()["bootstrap.servers"] == "b:9092"


def test_each_cluster_has_its_own_services() -> None:
    settings = ConsoleSettings.from_file(
        {
            "sql.url": "http://a:8088",
            "cluster.b.bootstrap.servers": "b:9092",
            "cluster.b.ksql.url": "http://b:8088/",
            "cluster.b.odradek.pipelines.directory": "/pipelines",
        }
    )
    found = [
        (
            Cluster(one, ClientPool(one.client_properties()), ()).sql_url,
            one.odradek_pipelines_directory,
        )
        for one in settings.clusters().values()
    ]
    assert found == [("http://a:8088", ""), ("http://b:8088", "/pipelines")]


def test_a_read_only_console_has_read_only_clusters() -> None:
    settings = ConsoleSettings.from_file(
        {"odradek.read.only": "true", "cluster.b.bootstrap.servers": "b:9092"}
    )
    assert all(one.odradek_read_only for one in settings.clusters().values())


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"cluster.prod.listeners": "http://127.0.0.1:1"}, "a cluster has bootstrap.servers"),
        ({"cluster.prod.client.security.protocol": "SSL"}, "bootstrap.servers is missing"),
        ({"cluster.Prod.bootstrap.servers": "b:1"}, "lower-case letters"),
        ({"cluster.kafka.bootstrap.servers": "b:1"}, "again"),
        ({"odradek.cluster.name": "a/b"}, "lower-case letters"),
        ({"odradek.masks": "customers"}, "customers/value.email"),
        ({"connect.url": "ftp://x"}, "http://127.0.0.1:8083"),
        ({"sql.basic.auth.user.info": "ada"}, "user:password"),
        ({"sql.url": "127.0.0.1:8088"}, "sql.url='127.0.0.1:8088' is not a URL"),
        ({"ksql.url": "http://ada:secret@[::1"}, "ksql.url"),
        ({"sql.url": "http://a:1", "ksql.url": "http://b:1"}, "two servers"),
        ({"odradek.tokens.sasl.username": "x"}, "no log-in of its own"),
        ({"client.sasl.username": "x"}, "a log-in of the service itself"),
        ({"odradek.read.olny": "true"}, "odradek.read.only"),
        ({"odradek.openid.issuer": "https://x", "odradek.openid.client.id": "c"}, "no log-in"),
        ({**SASL, "odradek.openid.issuer": "https://x"}, "client.id is missing"),
        ({**SASL, "odradek.openid.client.id": "c"}, "issuer is missing"),
        ({**OPENID, "odradek.openid.issuer": "http://x"}, "https://"),
        ({**OPENID, "odradek.openid.scope": "profile"}, "openid must be one"),
        ({**OPENID, "odradek.openid.broker.token": "any"}, "access_token or id_token"),
        ({"cluster.b.bootstrap.servers": "b:1", "cluster.b.client.nothing": "1"}, "cluster.b"),
    ],
)
def test_what_is_wrong_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        ConsoleSettings.from_file(properties)


def test_the_shipped_file_says_the_defaults() -> None:
    settings = ConsoleSettings.from_file(
        parse_properties((ROOT / "config/console.properties").read_text())
    )
    assert settings == ConsoleSettings()


def test_the_guide_has_every_setting_of_the_console() -> None:
    guide = (ROOT / "docs/console.md").read_text()
    own = ConsoleSettings.declared().keys() - WithRegistry.declared().keys()
    assert {name for name in own if f"| `{name}` |" not in guide} == set()
