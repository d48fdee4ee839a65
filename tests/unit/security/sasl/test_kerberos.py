"""GSSAPI between our broker and our client, with a real KDC of MIT; and clients that cheat."""

import asyncio
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from odradek.broker import Broker
from odradek.client import kerberos_login
from odradek.client.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionFailed,
)
from odradek.client.settings.shared import AdminSettings
from odradek.protocol.errors import ErrorCode
from tests.kdc import Kdc, jaas
from tests.unit.broker.authentication.wire import Wire, wire
from tests.unit.broker.harness import serving_on_sockets
from tests.unit.security.sasl.kerberos_broker import (
    SERVICE,
    admin,
    broker_properties,
    client_properties,
    first_token,
    log_ins,
    principals,
)


async def test_a_log_in_with_a_keytab(kdc: Kdc) -> None:
    async with serving_on_sockets(broker_properties(kdc)) as broker:
        service = client_properties(kdc, "svc", "svc/host@ODRADEK.TEST")
        found = await principals(broker, client_properties(kdc), service)
        assert found == ["User:ada", "User:svc"]


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
