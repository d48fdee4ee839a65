"""GSSAPI between our broker and our client, with a real KDC of MIT; and clients that cheat."""

import asyncio
import logging
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from odradek.broker import Broker
from odradek.broker.broker import BrokerCannotStart
from odradek.client import Admin, kerberos_login
from odradek.client.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionFailed,
    SettingsError,
)
from odradek.client.settings.shared import AdminSettings
from odradek.client.ticket_renewal import TicketRenewal
from odradek.config import BrokerSettings
from odradek.protocol.errors import ErrorCode
from odradek.security.kerberos import library
from odradek.world import MemoryDisk, World
from odradek.world.workers import AbandonableCalls
from tests.kdc import Kdc, jaas
from tests.needs import need
from tests.unit.broker.authentication.wire import Wire, listener, wire
from tests.unit.broker.harness import serving_on_sockets

SERVICE = "kafka/localhost"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    kdc = need(lambda: Kdc(tmp_path_factory.mktemp("kdc")))
    with kdc.running(), kdc.used_here():
        kdc.keytab("broker", SERVICE, "kafka/other")
        for name in ("ada", "bob", "svc/host"):
            kdc.keytab(name.partition("/")[0], name)
        yield kdc


def broker_properties(kdc: Kdc, keytab: str = "broker", **more: str) -> Mapping[str, str]:
    return {
        **listener(
            "SASL_PLAINTEXT",
            sasl_enabled_mechanisms="GSSAPI",
            gssapi_sasl_jaas_config=jaas(f"{kdc.directory}/{keytab}.keytab", SERVICE),
            **more,
        ),
        "listeners": "MAIN://localhost:0",
    }


def client_properties(
    kdc: Kdc, user: str = "ada", principal: str = "", **more: str
) -> dict[str, str]:
    line = jaas(f"{kdc.directory}/{user}.keytab", principal or user)
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": line,
        **{name.replace("_", "."): text for name, text in more.items()},
    }


@asynccontextmanager
async def admin(broker: Broker, properties: Mapping[str, str]) -> AsyncIterator[Admin]:
    settings = {"default.api.timeout.ms": "8000", **properties}
    async with Admin({"bootstrap.servers": broker.bootstrap, **settings}) as found:
        yield found


@contextmanager
def log_ins() -> Iterator[list[str]]:
    """The principals of the log-ins meanwhile, as the broker's log has them."""
    seen: list[str] = []

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            seen.extend(re.findall(r" is (User:\S+) on MAIN, by GSSAPI", text))
            seen.extend(re.findall(r" failed .*", text))

    logger, notes = logging.getLogger("odradek.authentication"), Notes()
    before = logger.level
    logger.addHandler(notes)
    logger.setLevel(logging.DEBUG)
    try:
        yield seen
    finally:
        logger.removeHandler(notes)
        logger.setLevel(before)


async def principals(broker: Broker, *clients: Mapping[str, str]) -> list[str]:
    """Returns who the broker takes these clients for."""
    with log_ins() as seen:
        for properties in clients:
            async with admin(broker, properties) as client:
                await client.list_topics()
    return list(dict.fromkeys(seen))


async def first_token(kdc: Kdc, user: str = "ada", service: str = "kafka") -> bytes:
    properties = client_properties(kdc, user) | {"sasl.kerberos.service.name": service}
    from odradek.client.login import login_of
    from odradek.world.randomness import Randomness

    login = login_of(AdminSettings.from_properties(properties), Randomness())
    return (await login.exchange("localhost")).first_message()


async def test_a_log_in_with_a_keytab(kdc: Kdc) -> None:
    async with serving_on_sockets(broker_properties(kdc)) as broker:
        service = client_properties(kdc, "svc", "svc/host@ODRADEK.TEST")
        found = await principals(broker, client_properties(kdc), service)
        assert found == ["User:ada", "User:svc"]


async def test_a_log_in_with_a_ticket_cache(kdc: Kdc) -> None:
    cache = f"FILE:{kdc.directory}/bob.ccache"
    line = (
        "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true"
        f' ticketCache="{cache}" serviceName="kafka";'
    )
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": line}
    async with serving_on_sockets(broker_properties(kdc)) as broker:
        async with admin(broker, properties) as client:
            with pytest.raises(AuthenticationFailed, match="get one with kinit"):
                await client.list_topics()
        kdc.kinit("bob", f"{kdc.directory}/bob.keytab", cache)
        assert await principals(broker, properties) == ["User:bob"]
        kdc.kinit("bob", f"{kdc.directory}/bob.keytab", cache, "-l", "1s")
        end_s = time.monotonic() + 20
        while True:
            assert time.monotonic() < end_s, "a ticket of one second still counts"
            await asyncio.sleep(0.2)
            async with admin(broker, properties) as client:
                with suppress(AuthenticationFailed):
                    await client.list_topics()
                    continue
                with pytest.raises(AuthenticationFailed, match="Ticket expired: get a new one"):
                    await client.list_topics()
                break


def of_cache(kdc: Kdc, name: str) -> tuple[str, dict[str, str]]:
    """Returns a ticket cache, and the properties of a client that uses it."""
    cache = f"FILE:{kdc.directory}/{name}.ccache"
    line = (
        "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true"
        f' ticketCache="{cache}" serviceName="kafka";'
    )
    return cache, {"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": line}


async def test_a_ticket_cache_is_renewed_before_it_ends(kdc: Kdc) -> None:
    cache, properties = of_cache(kdc, "renewed")
    kdc.kinit("bob", f"{kdc.directory}/bob.keytab", cache, "-l", "3s", "-r", "1h")
    begun_s = time.monotonic()
    often = broker_properties(kdc, connections_max_reauth_ms="400")
    async with serving_on_sockets(often) as broker, admin(broker, properties) as client:
        # Two tickets have ended by then.
        while time.monotonic() - begun_s < 7:
            await client.list_topics()
            await asyncio.sleep(0.1)
    assert len(await principals_of(cache)) == 1


async def test_tickets_of_a_keytab_are_replaced_before_they_end(kdc: Kdc) -> None:
    """Of the client, and of the broker that logs in at others by its own keytab."""
    kdc.keytab("brief", "brief")
    kdc.admin("modprinc", "-maxlife", "2 seconds", "brief")
    begun_s = time.monotonic()
    often = broker_properties(kdc, connections_max_reauth_ms="400")
    properties = client_properties(kdc, "brief")
    async with serving_on_sockets(often) as broker, admin(broker, properties) as client:
        while time.monotonic() - begun_s < 5:
            await client.list_topics()
            await asyncio.sleep(0.1)


async def principals_of(cache: str) -> set[str]:
    """Returns whose tickets there are now; a ticket that has ended is none."""
    import gssapi

    found = gssapi.Credentials(usage="initiate", store={"ccache": cache})
    return {str(found.name)} if found.lifetime else set()


async def test_a_ticket_that_cannot_be_renewed_is_told(
    kdc: Kdc, caplog: pytest.LogCaptureFixture
) -> None:
    cache, properties = of_cache(kdc, "short")
    kdc.kinit("bob", f"{kdc.directory}/bob.keytab", cache, "-l", "2s")
    async with (
        serving_on_sockets(broker_properties(kdc)) as broker,
        admin(broker, properties) as client,
    ):
        await client.list_topics()
        async with asyncio.timeout(20):
            while "by kinit -r?" not in caplog.text:  # noqa: ASYNC110 - a thread has to end
                await asyncio.sleep(0.05)


def test_nobody_renews_the_tickets_of_a_client_that_is_gone(kdc: Kdc) -> None:
    renewal = TicketRenewal(None, lambda: 1.2, AbandonableCalls("test"))
    gone = ref(renewal)

    async def use() -> None:
        renewal.begin()
        while renewal._timer is None:  # noqa: ASYNC110 - a thread has to end
            await asyncio.sleep(0.01)

    async def wait() -> None:
        nonlocal renewal
        await use()
        del renewal
        assert gone() is None

    asyncio.run(wait())


async def test_rules_for_names(kdc: Kdc) -> None:
    rules = "RULE:[2:$1-$2]/U,RULE:[1:$1](a.*)s/^/the-/"
    properties = broker_properties(kdc, sasl_kerberos_principal_to_local_rules=rules)
    async with serving_on_sockets(properties) as broker:
        service = client_properties(kdc, "svc", "svc/host")
        assert await principals(broker, client_properties(kdc), service) == [
            "User:the-ada",
            "User:SVC-HOST",
        ]
        async with admin(broker, client_properties(kdc, "bob")) as client:
            with pytest.raises(AuthenticationFailed, match="due to invalid credentials"):
                await client.list_topics()


async def test_a_session_is_renewed(kdc: Kdc) -> None:
    properties = broker_properties(kdc, connections_max_reauth_ms="400")
    async with (
        serving_on_sockets(properties) as broker,
        admin(broker, client_properties(kdc)) as client,
    ):
        with log_ins() as seen:
            end_s = time.monotonic() + 20
            while len(seen) < 4:
                await client.list_topics()
                assert time.monotonic() < end_s
                await asyncio.sleep(0.02)
        assert set(seen) == {"User:ada"}
        assert broker.connections == 1, "on the same connection"


async def test_new_keys_count_without_a_restart(kdc: Kdc) -> None:
    kdc.keytab("rotated", "kafka/rotated")
    principal = "kafka/rotated"
    keytab = f"{kdc.directory}/rotated.keytab"
    properties = dict(broker_properties(kdc)) | {
        "listener.name.main.gssapi.sasl.jaas.config": jaas(keytab, principal)
    }
    from odradek.client.login import login_of
    from odradek.world.randomness import Randomness

    login = login_of(AdminSettings.from_properties(client_properties(kdc)), Randomness())

    async def log_in(broker: Broker) -> int:
        exchange = await login.exchange("rotated")
        async with wire(broker) as client:
            await client.handshake("GSSAPI")
            message: bytes | None = exchange.first_message()
            while message is not None:
                answer = await client.authenticate(message)
                if answer.error_code:
                    login.refused()
                    return answer.error_code
                message = exchange.reply(answer.auth_bytes)
            assert exchange.is_complete
            return 0

    async with serving_on_sockets(properties) as broker:
        assert await log_in(broker) == 0
        os.unlink(keytab)
        kdc.add_to_keytab(keytab, principal)
        # The ticket was made for the old key, which the keytab does not have any more.
        assert await log_in(broker) == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await log_in(broker) == 0, "after a refusal the client gets a new ticket"
        os.unlink(f"{kdc.directory}/ada.keytab")
        kdc.add_to_keytab(f"{kdc.directory}/ada.keytab", "ada")
        assert await log_in(broker) == 0, "the client has a ticket"


# Clients that cheat or fail


async def refused(client: Wire, token: bytes) -> None:
    answer = await client.authenticate(token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism"
        " GSSAPI"
    )
    assert await client.is_closed()


async def test_a_refused_ticket_is_answered_after_the_delay(kdc: Kdc) -> None:
    properties = {**broker_properties(kdc), "connection.failed.authentication.delay.ms": "300"}
    async with serving_on_sockets(properties) as broker, wire(broker) as client:
        await client.handshake("GSSAPI")
        begun_s = time.monotonic()
        await refused(client, b"garbage")
        assert time.monotonic() - begun_s >= 0.29


async def test_a_replayed_ticket(kdc: Kdc, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "odradek.authentication")
    token = await first_token(kdc)
    async with serving_on_sockets(broker_properties(kdc)) as broker:
        async with wire(broker) as client:
            await client.handshake("GSSAPI")
            assert (await client.authenticate(token)).error_code == 0
        async with wire(broker) as thief:
            await thief.handshake("GSSAPI")
            await refused(thief, token)
    assert "Request is a replay" in caplog.text


@pytest.mark.parametrize("kind", ["garbage", "empty", "cut", "changed", "huge", "another service"])
async def test_messages_that_are_no_ticket_for_this_broker(kdc: Kdc, kind: str) -> None:
    good = await first_token(kdc)
    token = {
        "garbage": b"garbage",
        "empty": b"",
        "cut": good[: len(good) // 2],
        "changed": good[:-20] + bytes(20),
        "huge": good + bytes(400_000),
        "another service": await first_token_for_other(kdc),
    }[kind]
    async with serving_on_sockets(broker_properties(kdc)) as broker, wire(broker) as client:
        await client.handshake("GSSAPI")
        await refused(client, token)


async def first_token_for_other(kdc: Kdc) -> bytes:
    from odradek.client.login import login_of
    from odradek.world.randomness import Randomness

    login = login_of(AdminSettings.from_properties(client_properties(kdc)), Randomness())
    return (await login.exchange("other")).first_message()


@pytest.mark.parametrize("choice", [b"garbage", b"", b"\x01\0\0\0"])
async def test_a_choice_that_is_not_signed(kdc: Kdc, choice: bytes) -> None:
    async with serving_on_sockets(broker_properties(kdc)) as broker, wire(broker) as client:
        await client.handshake("GSSAPI")
        assert (await client.authenticate(await first_token(kdc))).error_code == 0
        assert (await client.authenticate(b"")).error_code == 0
        await refused(client, choice)


@pytest.mark.parametrize(
    ("choice", "is_accepted"),
    [
        (b"\x01\0\0\0", True),
        (b"\x01\0\0\0somebody-else", True),
        (b"\x02\0\0\0", False),
        (b"\x04\xff\xff\xff", False),
        (b"\x01", False),
    ],
)
async def test_the_layer_and_the_authorization_id(
    kdc: Kdc, choice: bytes, is_accepted: bool
) -> None:
    """There is no layer; the authorization id is ignored, as in Kafka."""
    import gssapi

    credentials = gssapi.Credentials(
        name=gssapi.Name("ada", gssapi.NameType.kerberos_principal),
        usage="initiate",
        store={"client_keytab": f"{kdc.directory}/ada.keytab", "ccache": "MEMORY:layers"},
    )
    service = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
    context = gssapi.SecurityContext(name=service, creds=credentials, usage="initiate")
    async with serving_on_sockets(broker_properties(kdc)) as broker, wire(broker) as client:
        await client.handshake("GSSAPI")
        offer = (await client.authenticate(context.step())).auth_bytes
        if not context.complete:
            context.step(offer)
            offer = (await client.authenticate(b"")).auth_bytes
        assert context.unwrap(offer).message == b"\x01\0\0\0"
        token = context.wrap(choice, False).message
        if is_accepted:
            assert (await client.authenticate(token)).error_code == 0
            assert (await client.metadata()).brokers
        else:
            await refused(client, token)


async def test_who_stops_midway_is_closed(kdc: Kdc) -> None:
    properties = {**broker_properties(kdc), "odradek.authentication.timeout.ms": "300"}
    async with serving_on_sockets(properties) as broker, wire(broker) as client:
        await client.handshake("GSSAPI")
        assert (await client.authenticate(await first_token(kdc))).error_code == 0
        assert await client.is_closed()


async def test_clocks_that_differ(kdc: Kdc, caplog: pytest.LogCaptureFixture) -> None:
    """The broker's clock is that of the machine, so a skew is played by allowing none."""
    caplog.set_level("INFO", "odradek.authentication")
    kdc.write_config(f"127.0.0.1:{kdc.port}", more=" clockskew = 1\n")
    try:
        token = await first_token(kdc)
        await asyncio.sleep(2.1)
        async with serving_on_sockets(broker_properties(kdc)) as broker, wire(broker) as client:
            await client.handshake("GSSAPI")
            await refused(client, token)
    finally:
        kdc.write_config(f"127.0.0.1:{kdc.port}")
    assert "set them by NTP" in caplog.text


async def test_a_client_of_another_realm(
    kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = Kdc(tmp_path, realm="STRANGER.TEST")
    with stranger.running():
        stranger.keytab("ada", "ada")
        stranger.keytab("broker", SERVICE)
        async with serving_on_sockets(broker_properties(kdc)) as broker:
            # The client believes its own KDC: its ticket is made with a key that the broker lacks.
            with stranger.used_here():
                token = await first_token(stranger)
            async with wire(broker) as client:
                await client.handshake("GSSAPI")
                await refused(client, token)


# KDCs that are away


async def test_a_kdc_that_is_away_or_slow_stalls_nobody(
    kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker needs no KDC, and a client that waits for one blocks no event loop."""
    monkeypatch.setattr(kerberos_login, "PATIENCE_S", 0.5)
    with socket.socket() as silent, socket.socket(type=socket.SOCK_DGRAM) as mute:
        silent.bind(("127.0.0.1", 0))
        mute.bind(silent.getsockname())
        silent.listen()
        port = silent.getsockname()[1]
        async with serving_on_sockets(broker_properties(kdc)) as broker:
            async with admin(broker, client_properties(kdc)) as before:
                await before.list_topics()
                kdc.write_config(f"127.0.0.1:{port}")
                try:
                    others = [
                        asyncio.create_task(ask_once(broker, client_properties(kdc, "bob")))
                        for _ in range(6)
                    ]
                    longest_s = 0.0
                    while not all(task.done() for task in others):
                        begun_s = time.monotonic()
                        await asyncio.sleep(0.005)
                        await before.list_topics()
                        longest_s = max(longest_s, time.monotonic() - begun_s)
                    assert longest_s < 0.5, longest_s
                    for task in others:
                        error = task.exception()
                        assert isinstance(error, ClientError), error
                        assert "the KDC has not answered for 0.5 s" in str(error), error
                    with socket.socket() as closed:
                        closed.bind(("127.0.0.1", 0))
                        kdc.write_config(f"127.0.0.1:{closed.getsockname()[1]}")
                    monkeypatch.undo()
                    with pytest.raises(ConnectionFailed, match="Cannot contact any KDC"):
                        await first_token(kdc, "bob")
                finally:
                    kdc.write_config(f"127.0.0.1:{kdc.port}")
            assert await principals(broker, client_properties(kdc, "bob")) == ["User:bob"]


async def ask_once(broker: Broker, properties: Mapping[str, str]) -> None:
    async with admin(broker, {**properties, "default.api.timeout.ms": "2000"}) as client:
        await client.list_topics()


# What cannot work is said at the start


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
