"""The log-in of a connection, its renewal, and brokers that cheat or break off."""

import asyncio
import base64
from collections.abc import Awaitable, Callable

import pytest

from odradek.client import Admin, Connection, Producer
from odradek.client.errors import (
    AuthenticationFailed,
    BadResponse,
    ClientError,
    ConnectionClosed,
    ConnectionFailed,
    is_retriable,
)
from odradek.client.security import ClientSecurity
from odradek.client.settings import AdminSettings
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.world import Randomness
from simulation.run import run
from tests.unit.client.sasl_cluster import Answers, Refused, SaslCluster, Says

PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ada",
    "sasl.password": "hunter2",
}
SCRAM = PLAIN | {"sasl.mechanism": "SCRAM-SHA-256"}


def simulate(test: Callable[[], Awaitable[None]]) -> None:
    async def main(_: object) -> None:
        await test()

    run(main, 1)


async def connect(cluster: SaslCluster, settings: dict[str, str], **options: int) -> Connection:
    security = ClientSecurity(AdminSettings.from_properties(settings), Randomness(1))
    return await Connection.open("127.0.0.1", cluster.ports[1], security=security, **options)  # type: ignore[arg-type]


async def refused_by(cluster: SaslCluster, settings: dict[str, str]) -> ClientError:
    await cluster.start()
    try:
        with pytest.raises(ClientError) as caught:
            await connect(cluster, settings)
    finally:
        await cluster.stop()
    assert "hunter2" not in str(caught.value)
    return caught.value


def test_a_client_logs_in_before_its_first_request() -> None:
    async def test() -> None:
        cluster = SaslCluster(Says())
        await cluster.start()
        connection = await connect(cluster, PLAIN)
        answer = await connection.request(MetadataRequest(topics=[]), MetadataResponse)
        assert answer.cluster_id == "mini"
        assert cluster.logged_in == [b"\0ada\0hunter2"]
        connection.close()
        await cluster.stop()

    simulate(test)


def test_a_refusal_has_the_words_of_the_broker_and_is_final() -> None:
    async def test() -> None:
        error = await refused_by(SaslCluster(Refused("Invalid username or password")), PLAIN)
        assert isinstance(error, AuthenticationFailed)
        assert not is_retriable(error)
        assert str(error).endswith("refused the log-in by PLAIN: Invalid username or password")

    simulate(test)


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are() -> None:
    async def test() -> None:
        cluster = SaslCluster(Says(), mechanisms=("SCRAM-SHA-512", "OAUTHBEARER"))
        error = await refused_by(cluster, PLAIN)
        assert isinstance(error, AuthenticationFailed)
        assert "does not offer PLAIN" in str(error)
        assert str(error).endswith("one that it offers: OAUTHBEARER, SCRAM-SHA-512")

    simulate(test)


def test_a_listener_without_sasl_is_recognised() -> None:
    async def test() -> None:
        cluster = SaslCluster(Says())
        del cluster.served[SaslHandshakeRequest.api_key]
        assert "set security.protocol=PLAINTEXT or SSL" in str(await refused_by(cluster, PLAIN))

    simulate(test)


def test_a_broker_that_breaks_off_may_be_tried_again() -> None:
    async def test() -> None:
        cluster = SaslCluster(Says(), breaks_off=True)
        error = await refused_by(cluster, PLAIN)
        assert isinstance(error, ConnectionFailed)
        assert is_retriable(error)

    simulate(test)


def test_producer_and_admin_raise_the_refusal_at_once() -> None:
    async def test() -> None:
        cluster = SaslCluster(Refused("no"))
        await cluster.start()
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        servers = {"bootstrap.servers": cluster.bootstrap}
        async with Producer(servers | PLAIN) as producer:
            with pytest.raises(AuthenticationFailed):
                await producer.send_and_wait("t", b"x")
        async with Admin(servers | PLAIN) as admin:
            with pytest.raises(AuthenticationFailed):
                await admin.list_topics()
        assert loop.time() - begun_s < 1, "nothing was tried again"
        await cluster.stop()

    simulate(test)


def test_a_client_without_a_log_in_is_told_what_to_set() -> None:
    async def test() -> None:
        cluster = SaslCluster(Says())
        await cluster.start()
        connection = await Connection.open("127.0.0.1", cluster.ports[1])
        with pytest.raises(ConnectionClosed, match=r"set security\.protocol=SASL_SSL or SASL_PLAI"):
            await connection.request(MetadataRequest(topics=[]), MetadataResponse)
        await cluster.stop()

    simulate(test)


# Renewal


def test_a_session_is_renewed_before_it_ends_and_requests_wait() -> None:
    async def test() -> None:
        cluster = SaslCluster(Says(session_lifetime_ms=10_000))
        await cluster.start()
        connection = await connect(cluster, PLAIN)
        for _ in range(600):
            # A broker closes the connection on a request in the middle of a log-in.
            sent = [connection.send(MetadataRequest(topics=[]), MetadataResponse) for _ in range(3)]
            await asyncio.gather(*sent)
            await asyncio.sleep(0.1)
        assert connection.is_open
        log_ins = [index for index, one in enumerate(cluster.requests) if _is_log_in(one[1])]
        # In 60 s a session of 10 s is renewed after 8.5 to 9.5 s each time.
        assert 7 <= len(log_ins) <= 8
        assert len({*cluster.logged_in}) == 1
        connection.close()
        await cluster.stop()

    simulate(test)


def _is_log_in(request: object) -> bool:
    return isinstance(request, SaslAuthenticateRequest)


def test_requests_that_come_during_the_renewal_are_answered_after_it() -> None:
    async def test() -> None:
        cluster = SaslCluster(Says())
        await cluster.start()
        connection = await connect(cluster, PLAIN)
        connection.hold_requests()
        held = connection.send(MetadataRequest(topics=[]), MetadataResponse)
        waits = asyncio.ensure_future(
            connection.request(MetadataRequest(topics=[]), MetadataResponse)
        )
        await asyncio.sleep(1)
        assert not held.done()
        assert not waits.done()
        connection.release_requests()
        assert (await held).cluster_id == (await waits).cluster_id == "mini"
        connection.close()
        await cluster.stop()

    simulate(test)


def test_a_renewal_that_is_refused_ends_the_connection() -> None:
    async def test() -> None:
        cluster = SaslCluster(Says(session_lifetime_ms=1_000), Refused("changed"))
        await cluster.start()
        connection = await connect(cluster, PLAIN)
        await asyncio.sleep(2)
        assert not connection.is_open
        with pytest.raises(ConnectionClosed, match=r"could not be renewed: .* changed"):
            connection.send(MetadataRequest(topics=[]), MetadataResponse)
        await cluster.stop()

    simulate(test)


def test_a_closed_connection_is_not_renewed() -> None:
    async def test() -> None:
        cluster = SaslCluster(Says(session_lifetime_ms=1_000))
        await cluster.start()
        (await connect(cluster, PLAIN)).close()
        await asyncio.sleep(5)
        assert len(cluster.logged_in) == 1
        await cluster.stop()

    simulate(test)


# Brokers that cheat; SCRAM computes in threads, so these run on the real network


def _first(message: bytes) -> str:
    return message.decode().partition("r=")[2]


def _challenge(nonce: str, iterations: str = "4096") -> Says:
    return Says(f"r={nonce},s={base64.b64encode(b'salt').decode()},i={iterations}".encode())


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([lambda _: _challenge("mine")(b"")], "nonce that does not continue ours"),
        ([lambda m: _challenge(_first(m) + "x", "1")(b"")], "asks for '1' SCRAM iterations"),
        ([lambda m: _challenge(_first(m) + "x", "9" * 9)(b"")], "SCRAM iterations"),
        (
            [lambda m: _challenge(_first(m) + "x")(b""), Says(b"v=" + base64.b64encode(bytes(32)))],
            "cannot prove that it knows the password",
        ),
        ([lambda m: _challenge(_first(m) + "x")(b""), Says(b"")], "malformed SCRAM message"),
        ([Says(bytes(600_000))], "sent 600000 bytes, which is too much"),
    ],
)
async def test_a_broker_that_cheats_is_refused(script: list[Answers], said: str) -> None:
    cluster = SaslCluster(*script, mechanisms=("SCRAM-SHA-256",))
    cluster.use_free_port()
    error = await refused_by(cluster, SCRAM)
    assert isinstance(error, AuthenticationFailed)
    assert said in str(error)


async def test_a_broker_that_asks_for_ever_is_left() -> None:
    cluster = SaslCluster(Says(b"{}"), mechanisms=("OAUTHBEARER",))
    cluster.use_free_port()
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        ' required unsecuredLoginStringClaim_sub="ada";',
    }
    error = await refused_by(cluster, settings)
    assert isinstance(error, AuthenticationFailed | BadResponse)
    assert len(cluster.logged_in) < 5


async def test_a_frame_that_no_broker_sends_before_a_log_in_ends_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(1000)
            writer.write((50_000_000).to_bytes(4, "big") + bytes(100))
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()
            ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    security = ClientSecurity(AdminSettings.from_properties(PLAIN), Randomness(1))
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionFailed, match="does not speak the Kafka protocol"):
            await Connection.open("127.0.0.1", port, security=security)
        await ended.wait()
