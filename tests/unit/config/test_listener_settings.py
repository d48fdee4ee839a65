"""Settings of one listener and of one mechanism: what counts, what is shown, what is refused."""

import pytest

from odradek.config import BrokerSettings, describe_broker
from odradek.config.broker_settings import check_broker_overrides
from odradek.config.describe import Source
from odradek.config.setting import InvalidSetting

LISTENERS = {
    "listeners": "INTERNAL://:0,PUBLIC://:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,PUBLIC:SASL_SSL",
}


def settings(**more: str) -> BrokerSettings:
    properties = {name.replace("__", "-").replace("_", "."): text for name, text in more.items()}
    return BrokerSettings.from_properties({**LISTENERS, **properties})


def test_the_setting_of_a_listener_counts_before_that_of_all_listeners() -> None:
    found = settings(
        ssl_keystore_location="/all", listener_name_public_ssl_keystore_location="/public"
    )
    assert found.listener("INTERNAL").ssl_keystore_location == "/all"
    assert found.listener("PUBLIC").ssl_keystore_location == "/public"
    assert found.listener("PUBLIC").own == {"ssl.keystore.location"}
    assert found.warnings == ()


def test_the_setting_of_a_mechanism_counts_for_that_mechanism() -> None:
    found = settings(
        listener_name_public_connections_max_reauth_ms="5",
        listener_name_public_scram__sha__256_connections_max_reauth_ms="7",
    ).listener("PUBLIC")
    assert found.connections_max_reauth_ms == 5
    assert found.of_mechanism("PLAIN").connections_max_reauth_ms == 5
    assert found.of_mechanism("SCRAM-SHA-256").connections_max_reauth_ms == 7


def test_bad_values_are_refused_by_the_name_that_was_written() -> None:
    with pytest.raises(InvalidSetting, match=r"for listener\.name\.public\.ssl\.client\.auth"):
        settings(listener_name_public_ssl_client_auth="maybe")


def test_other_names_are_warned_of() -> None:
    found = settings(listener_name_gone_ssl_client_auth="none", listener_name_public_nonsense="1")
    assert [warning.split(" ")[0] for warning in found.warnings] == [
        "Unknown",
        "listener.name.gone.ssl.client.auth",
    ]


def test_passwords_of_listeners_are_not_shown() -> None:
    name = "listener.name.public.ssl.keystore.password"
    location = "listener.name.public.ssl.keystore.location"
    jaas = "listener.name.public.plain.sasl.jaas.config"
    found = BrokerSettings.from_properties(
        {
            **LISTENERS,
            name: "planted",
            jaas: "planted",
            location: "/p",
            "ssl.keystore.location": "/a",
        }
    )
    shown = {one.name: one for one in describe_broker(found)}
    assert "planted" not in repr(shown)
    for secret in (name, jaas):
        assert shown[secret].value is None
        assert shown[secret].is_sensitive
        assert shown[secret].source is Source.STATIC_BROKER
    assert shown[location].value == "/p"
    assert not shown[location].read_only
    assert [(one.name, one.value) for one in shown[location].synonyms] == [
        (location, "/p"),
        ("ssl.keystore.location", "/a"),
    ]


def test_keystores_change_while_the_broker_runs_for_one_listener_only() -> None:
    check_broker_overrides(
        {"listener.name.public.ssl.keystore.location": "/new"}, settings(), per_broker=True
    )
    for name, per_broker in (
        ("ssl.keystore.location", True),
        ("listener.name.public.ssl.keystore.location", False),
        ("listener.name.public.ssl.client.auth", True),
    ):
        with pytest.raises(InvalidSetting):
            check_broker_overrides({name: "none"}, settings(), per_broker=per_broker)


def test_other_security_settings_change_for_all_listeners_too() -> None:
    name = "sasl.kerberos.min.time.before.relogin"
    check_broker_overrides({name: "58000"}, settings(), per_broker=True)
    changed = settings().with_dynamic({}, {name: "58000"})
    assert changed.listener("public").sasl_kerberos_min_time_before_relogin == 58_000
    assert changed.listener("public") != settings().listener("public")
