"""TLS listeners of a real broker, on asyncio's and on uvloop's event loop: handshakes, principals,
new keys while clients are connected, and what is refused."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from odradek.broker import Broker
from odradek.broker.network.tls import TlsLayer
from odradek.config import BrokerSettings
from odradek.config.setting import InvalidSetting
from odradek.security.principals import Principal
from odradek.security.tls.contexts import client_context
from odradek.security.tls.settings import TlsSettings
from odradek.world import World
from tests.certificates import PASSWORD, Authority, Issued
from tests.unit.broker.authentication.wire import listener, wire
from tests.unit.broker.harness import serving_on_sockets

AUTHORITY = Authority()
STRANGER = Authority("another CA")
SERVER = AUTHORITY.issue("server")
ALICE = AUTHORITY.issue("Alice")

Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test on one of both event loops."""

    def run_on(test: Callable[[], Awaitable[None]]) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else None
        with asyncio.Runner(loop_factory=factory) as runner:

            async def main() -> None:
                await test()

            runner.run(main())

    return run_on


def client(own: Issued | None = None, authority: Authority = AUTHORITY) -> ssl.SSLContext:
    properties = {"ssl.truststore.certificates": authority.pem}
    if own is not None:
        properties["ssl.keystore.key"] = own.key_pem
        properties["ssl.keystore.certificate.chain"] = own.chain_pem
    return client_context(TlsSettings.from_properties(properties), lambda _: b"")


def tls(path: Path, issued: Issued = SERVER, **more: str) -> Mapping[str, str]:
    """The properties of an SSL listener with a PKCS12 keystore at that path, which is written."""
    issued.keystore(path)
    return listener("SSL", ssl_keystore_location=str(path), ssl_keystore_password=PASSWORD, **more)


def world(tmp_path: Path) -> tuple[Mapping[str, str], World]:
    return {"log.dirs": str(tmp_path / "data")}, World()


def principals(broker: Broker) -> list[Principal]:
    return [connection.principal for connection in broker._server.connections.open]


def layers(broker: Broker) -> list[TlsLayer]:
    """Returns the TLS layers of the connections that have not finished their handshake."""
    found = [connection._transport._layer for connection in broker._server.connections.open]  # type: ignore[union-attr]
    return [one for one in found if not one._is_shaken]


def serial(found: asyncio.StreamWriter) -> str:
    certificate = found.get_extra_info("ssl_object").getpeercert()
    return str(certificate["serialNumber"])


def test_records_pass_and_certificates_name_principals(run: Run, tmp_path: Path) -> None:
    data, real = world(tmp_path)
    properties = tls(
        tmp_path / "keys.p12",
        ssl_client_auth="requested",
        ssl_truststore_certificates=AUTHORITY.pem,
        ssl_principal_mapping_rules="RULE:^CN=(.*?),OU=test,.*$/$1/L,DEFAULT",
    )

    async def test() -> None:
        async with serving_on_sockets({**properties, **data}, real) as broker:
            async with wire(broker, client(ALICE)) as alice:
                assert (await alice.metadata()).brokers
                assert principals(broker) == [Principal("User", "alice")]
            async with wire(broker, client()) as nobody:
                assert (await nobody.metadata()).brokers
                assert Principal("User", "ANONYMOUS") in principals(broker)

    run(test)


def test_clients_that_are_refused(run: Run, tmp_path: Path) -> None:
    data, real = world(tmp_path)
    properties = tls(
        tmp_path / "keys.p12", ssl_client_auth="required", ssl_truststore_certificates=AUTHORITY.pem
    )
    bad = [
        client(),
        client(STRANGER.issue("Alice")),
        client(AUTHORITY.issue("Alice", expired=True)),
        client(ALICE, STRANGER),
    ]

    async def test() -> None:
        async with serving_on_sockets({**properties, **data}, real) as broker:
            for context in bad:
                with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                    async with wire(broker, context) as refused:
                        await refused.versions()
            async with wire(broker) as plain:
                await plain.send_frame(b"\x00\x12\x00\x00\x00\x00\x00\x07\x00\x00")
                assert await plain.is_closed_after_alert()
            async with wire(broker, client(ALICE)) as good:
                assert (await good.versions()).api_keys

    run(test)


def test_no_rule_for_a_certificate_closes_the_connection(run: Run, tmp_path: Path) -> None:
    data, real = world(tmp_path)
    properties = tls(
        tmp_path / "keys.p12",
        ssl_client_auth="required",
        ssl_truststore_certificates=AUTHORITY.pem,
        ssl_principal_mapping_rules="RULE:^CN=robot.*$/robot/",
    )

    async def test() -> None:
        async with serving_on_sockets({**properties, **data}, real) as broker:
            with pytest.raises((ConnectionError, ssl.SSLError, asyncio.IncompleteReadError)):
                async with wire(broker, client(ALICE)) as refused:
                    await refused.versions()

    run(test)


def test_a_changed_file_is_used_for_new_connections(run: Run, tmp_path: Path) -> None:
    data, real = world(tmp_path)
    path = tmp_path / "keys.p12"
    properties = {**tls(path), **data, "odradek.ssl.reload.interval.ms": "20"}

    async def test() -> None:
        async with serving_on_sockets(properties, real) as broker, wire(broker, client()) as old:
            before = serial(old.writer)
            AUTHORITY.issue("server").keystore(path)
            async with asyncio.timeout(20):
                while True:
                    async with wire(broker, client()) as new:
                        if serial(new.writer) != before:
                            break
            assert (await old.metadata()).brokers, "an open connection goes on"

    run(test)


@pytest.mark.parametrize("kind", ["garbage", "other name", "fewer hosts", "other password"])
async def test_keys_that_cannot_be_used_are_refused(kind: str, tmp_path: Path) -> None:
    data, real = world(tmp_path)
    path, bad = tmp_path / "keys.p12", tmp_path / "bad.p12"
    password = PASSWORD
    if kind == "garbage":
        bad.write_bytes(b"garbage")
    elif kind == "other name":
        AUTHORITY.issue("somebody else").keystore(bad)
    elif kind == "fewer hosts":
        AUTHORITY.issue("server", hosts=("localhost",)).keystore(bad)
    else:
        SERVER.keystore(bad)
        password = "wrong"
    async with serving_on_sockets({**tls(path), **data}, real) as broker:
        secured = broker._server.secured
        assert secured is not None
        changed = BrokerSettings.from_properties(
            {
                **tls(path),
                "listener.name.main.ssl.keystore.location": str(bad),
                "listener.name.main.ssl.keystore.password": password,
            }
        )
        with pytest.raises(InvalidSetting):
            await secured.check(changed)
        await secured.reload(changed)
        keys = secured.by_name["MAIN"].keys
        assert keys is not None
        assert (keys.reloads, keys.refusals) == (0, 1)
        async with wire(broker, client()) as good:
            assert (await good.versions()).api_keys


def test_a_handshake_may_arrive_in_pieces_and_half_a_hello_makes_no_objects(
    run: Run, tmp_path: Path
) -> None:
    """OpenSSL's objects take 100 KB, so they are made when the ClientHello is whole."""
    data, real = world(tmp_path)
    properties = {**tls(tmp_path / "keys.p12"), **data}

    async def test() -> None:
        async with serving_on_sockets(properties, real) as broker, wire(broker) as slow:
            into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
            shaking = client().wrap_bio(into, out, server_hostname="localhost")
            with pytest.raises(ssl.SSLWantReadError):
                shaking.do_handshake()
            hello = out.read()
            for position in range(len(hello) - 1):
                slow.writer.write(hello[position : position + 1])
                await slow.writer.drain()
            # Another connection is served: what came before has been looked at.
            async with wire(broker, client()) as other:
                assert (await other.versions()).api_keys
            assert [one.ssl_object for one in layers(broker)] == [None]
            slow.writer.write(hello[-1:])
            async with asyncio.timeout(10):
                into.write(await slow.receive_some())
            # With TLS 1.3 the broker's answer is all that the client needs.
            shaking.do_handshake()

    run(test)


def test_a_slow_handshake_is_closed(run: Run, tmp_path: Path) -> None:
    data, real = world(tmp_path)
    properties = {**tls(tmp_path / "keys.p12"), **data, "odradek.authentication.timeout.ms": "400"}

    async def test() -> None:
        async with serving_on_sockets(properties, real) as broker:
            for begun in (b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00" + bytes(300)):
                async with wire(broker) as silent:
                    silent.writer.write(begun)
                    assert await silent.is_closed()
            async with wire(broker, client()) as good:
                await asyncio.sleep(0.5)
                assert (await good.versions()).api_keys, "a finished handshake has all the time"

    run(test)
