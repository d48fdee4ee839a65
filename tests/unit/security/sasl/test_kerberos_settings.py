"""Settings of Kerberos that cannot work are refused at the start, with what to do."""

from collections.abc import Mapping
from typing import Any

import pytest

from odradek.broker import Broker
from odradek.broker.broker import BrokerCannotStart
from odradek.client.errors import (
    AuthenticationFailed,
    SettingsError,
)
from odradek.client.settings.shared import AdminSettings
from odradek.config import BrokerSettings
from odradek.security.kerberos import library
from odradek.world import MemoryDisk, World
from tests.kdc import Kdc, jaas
from tests.unit.broker.harness import serving_on_sockets
from tests.unit.security.sasl.kerberos_broker import (
    SERVICE,
    admin,
    broker_properties,
    client_properties,
)


@pytest.mark.parametrize(
    ("principal", "keytab", "said"),
    [
        (SERVICE, "nowhere", r"the keytab .*nowhere.keytab cannot be read: No such file"),
        (SERVICE, "folder", r"the keytab .*folder.keytab cannot be read: Is a directory"),
        (SERVICE, "nonsense", r"cannot be used: Unsupported key table format version number"),
        ("kafka/elsewhere", "broker", r"cannot be used: No key table entry found for kafka/else"),
        (SERVICE, "ada", r"No key table entry found for kafka/localhost@ODRADEK\.TEST"),
    ],
)
async def test_a_keytab_that_cannot_be_used(
    kdc: Kdc, principal: str, keytab: str, said: str
) -> None:
    path = kdc.directory / f"{keytab}.keytab"
    if keytab == "folder":
        path.mkdir(exist_ok=True)
    if keytab == "nonsense":
        path.write_text("nonsense")
    changed = dict(broker_properties(kdc)) | {
        "listener.name.main.gssapi.sasl.jaas.config": jaas(str(path), principal)
    }
    with pytest.raises(BrokerCannotStart, match=said) as refusal:
        await start(changed)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("useTicketCache=true", "a broker needs a keytab"),
        ("", "must have useKeyTab=true with keyTab and principal"),
        ("useKeyTab=true", "must have keyTab beside useKeyTab=true"),
        ('useKeyTab=true keyTab="x"', "must have principal beside useKeyTab=true"),
    ],
)
async def test_jaas_lines_that_cannot_be_used(kdc: Kdc, line: str, said: str) -> None:
    module = "com.sun.security.auth.module.Krb5LoginModule required"
    changed = dict(broker_properties(kdc)) | {
        "listener.name.main.gssapi.sasl.jaas.config": f"{module} {line};"
    }
    with pytest.raises(BrokerCannotStart, match=said):
        await start(changed)


async def start(properties: Mapping[str, str]) -> None:
    settings = BrokerSettings.from_properties(
        {**properties, "odradek.metadata.store": "memory", "log.dirs": "/data"}
    )
    await Broker(settings, World(disk=MemoryDisk())).run()


async def test_a_package_that_is_missing(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("libgssapi_krb5.so.2: cannot open shared object file")

    monkeypatch.setattr(library, "_loaded", missing)
    said = r"needs the package gssapi.*: apt-get install libkrb5-dev .* -m pip install .*kerberos\]"
    with pytest.raises(BrokerCannotStart, match=said) as refusal:
        await start(broker_properties(kdc))
    assert "\n" not in str(refusal.value)
    with pytest.raises(SettingsError, match=said):
        AdminSettings.from_properties(client_properties(kdc))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sasl.jaas.config": ""}, "needs to know who logs in: set sasl.jaas.config=com.sun"),
        ({"sasl.kerberos.service.name": ""}, "needs sasl.kerberos.service.name"),
        (
            {"sasl.jaas.config": jaas("x", "ada", more=' serviceName="storm"')},
            "has serviceName=storm: leave one out",
        ),
        (
            {"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"},
            "nobody is asked for a password",
        ),
    ],
)
def test_client_settings_that_cannot_work(
    kdc: Kdc, change: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    with pytest.raises(SettingsError, match=said):
        AdminSettings.from_properties(client_properties(kdc) | change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sasl.kerberos.service.name": "storm"}, "Server storm/localhost@.* not found.*addprinc"),
        ({"sasl.jaas.config": ("ada", "eve")}, "No key table entry found for eve"),
        ({"sasl.jaas.config": ("nobody", "ada")}, "cannot be read: No such file"),
    ],
)
async def test_what_the_kdc_refuses(kdc: Kdc, change: dict[str, Any], said: str) -> None:
    line = change.get("sasl.jaas.config")
    if line is not None:
        change = {"sasl.jaas.config": jaas(f"{kdc.directory}/{line[0]}.keytab", line[1])}
    async with (
        serving_on_sockets(broker_properties(kdc)) as broker,
        admin(broker, client_properties(kdc) | change) as client,
    ):
        with pytest.raises(AuthenticationFailed, match=said):
            await client.list_topics()


async def test_a_keytab_with_an_old_key(kdc: Kdc) -> None:
    kdc.keytab("old", "eva")
    kdc.admin("cpw", "-randkey", "eva")
    async with (
        serving_on_sockets(broker_properties(kdc)) as broker,
        admin(broker, client_properties(kdc, "old", "eva")) as client,
    ):
        with pytest.raises(AuthenticationFailed, match="export it again with ktadd"):
            await client.list_topics()
