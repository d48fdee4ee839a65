"""Single steps of a log-in by SASL, and Kafka's answer to each."""

import asyncio
import time

import pytest

from odradek.broker import Broker
from odradek.broker.broker import BrokerCannotStart
from odradek.config import BrokerSettings
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.types import TopicId
from odradek.world import MemoryDisk, World
from tests.unit.broker.authentication.wire import listener, wire
from tests.unit.broker.harness import serving_on_sockets

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' user_alice="secret" user_bob="secret";'
)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PLAIN = listener(
    "SASL_PLAINTEXT",
    sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256",
    plain_sasl_jaas_config=JAAS,
    scram__sha__256_sasl_jaas_config=SCRAM,
)
WITH_SESSIONS = {**PLAIN, "listener.name.main.plain.connections.max.reauth.ms": "60000"}


async def test_a_log_in() -> None:
    async with serving_on_sockets(PLAIN) as broker, wire(broker) as client:
        keys = {one.api_key for one in (await client.versions()).api_keys}
        assert {17, 36} <= keys
        shaken = await client.handshake()
        assert shaken.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        answer = await client.authenticate(b"\0alice\0secret")
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
        assert (await client.metadata()).brokers
        again = await client.handshake()
        assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await client.metadata()).brokers, "the connection stays"


async def test_a_log_in_with_bare_tokens() -> None:
    async with serving_on_sockets(PLAIN) as broker:
        async with wire(broker) as client:
            await client.handshake(version=0)
            await client.send_frame(b"\0alice\0secret")
            assert await client.receive_frame() == b""
            assert (await client.metadata()).brokers
        async with wire(broker) as client:
            await client.handshake(version=0)
            await client.send_frame(b"\0alice\0wrong")
            assert await client.is_closed()


@pytest.mark.parametrize("user", ["alice", "nobody"])
async def test_a_failed_log_in_is_answered_after_the_delay(user: str) -> None:
    delayed = {**PLAIN, "connection.failed.authentication.delay.ms": "300"}
    async with (
        serving_on_sockets(delayed) as broker,
        wire(broker) as client,
        wire(broker) as other,
    ):
        await client.handshake()
        begun_s = time.monotonic()
        waiting = asyncio.ensure_future(client.authenticate(f"\0{user}\0wrong".encode()))
        await asyncio.sleep(0)
        assert await other.log_in() == 0
        assert not waiting.done(), "others must not wait"
        answer = await waiting
        assert time.monotonic() - begun_s >= 0.29
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Authentication failed: Invalid username or password"
        assert await client.is_closed()


async def test_unknown_mechanisms() -> None:
    async with serving_on_sockets(PLAIN) as broker, wire(broker) as client:
        answer = await client.handshake("NONSENSE")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        assert await client.is_closed()


async def test_before_the_handshake_everything_else_is_closed_unanswered() -> None:
    async with serving_on_sockets(PLAIN) as broker:
        for request in (MetadataRequest(topics=[]), SaslAuthenticateRequest(auth_bytes=b"")):
            async with wire(broker) as client:
                await client.send(request, 1)
                assert await client.is_closed()
        async with wire(broker) as client:
            await client.versions()
            await client.send(ApiVersionsRequest(), 0)
            assert await client.is_closed(), "a second ApiVersions"


async def test_an_unknown_version_of_api_versions_may_be_corrected() -> None:
    async with serving_on_sockets(PLAIN) as broker, wire(broker) as client:
        await client.send_frame(b"\x00\x12\x00\x7f\x00\x00\x00\x07\x00\x01x\x00")
        answer = ApiVersionsResponse.decode(await client.receive_frame(), 0, 4)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await client.versions()).error_code == 0
        assert await client.log_in() == 0


async def test_after_the_handshake_other_requests_get_an_error_in_their_own_format() -> None:
    illegal = ErrorCode.ILLEGAL_SASL_STATE
    async with serving_on_sockets(PLAIN) as broker:
        async with wire(broker) as client:
            await client.handshake()
            assert (
                await client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
            ).error_code == illegal
            assert await client.is_closed()
        async with wire(broker) as client:
            await client.handshake()
            second = await client.ask(
                SaslHandshakeRequest(mechanism="PLAIN"), SaslHandshakeResponse, 1
            )
            assert second.error_code == illegal
            assert await client.is_closed()
        async with wire(broker) as client:
            await client.handshake()
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            answer = await client.ask(asked, MetadataResponse, 4)
            assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", illegal)]
            assert answer.brokers == []
            assert await client.is_closed()


@pytest.mark.parametrize("version", [10, 11, 12])
async def test_metadata_of_a_topic_without_a_name_in_the_middle_of_a_log_in(version: int) -> None:
    """Version 10 and 11 allow it in requests, but not in responses. The fuzzer found a traceback in
    the log."""
    async with serving_on_sockets(PLAIN) as broker, wire(broker) as client:
        await client.handshake()
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=None, topic_id=TopicId(bytes(16)))]
        )
        await client.send(asked, version)
        answer = MetadataResponse.decode(await client.receive_frame(), version, 5)
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.ILLEGAL_SASL_STATE]
        assert await client.is_closed()


@pytest.mark.parametrize("head", [b"\xff\xff\xff\xff", b"\x03\x20\x00\x00", b"\x00\x09\x27\xc0"])
async def test_frames_before_the_log_in_are_small(head: bytes) -> None:
    async with serving_on_sockets(PLAIN) as broker, wire(broker) as client:
        client.writer.write(head)
        assert await client.is_closed()


async def test_after_the_log_in_frames_may_be_large() -> None:
    async with serving_on_sockets(PLAIN) as broker, wire(broker) as client:
        assert await client.log_in() == 0
        names = [MetadataRequestTopic(name="x" * 240) for _ in range(4000)]
        answer = await client.ask(
            MetadataRequest(topics=names, allow_auto_topic_creation=False), MetadataResponse, 4
        )
        assert answer.topics


async def test_a_log_in_again() -> None:
    async with serving_on_sockets(WITH_SESSIONS) as broker, wire(broker) as client:
        await client.handshake()
        assert (await client.authenticate(b"\0alice\0secret")).session_lifetime_ms == 60_000
        assert await client.log_in() == 0, "the first log-in again may come at once"
        soon = await client.handshake()
        assert soon.error_code == ErrorCode.ILLEGAL_SASL_STATE, "but not twice in a second"
        assert (await client.metadata()).brokers


async def test_a_log_in_again_as_somebody_else() -> None:
    async with serving_on_sockets(WITH_SESSIONS) as broker, wire(broker) as client:
        assert await client.log_in() == 0
        await client.handshake()
        answer = await client.authenticate(b"\0bob\0secret")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert (answer.error_message or "").startswith("Cannot change principals during re-auth")
        assert await client.is_closed()


async def test_a_log_in_again_by_another_mechanism_is_closed() -> None:
    async with serving_on_sockets(WITH_SESSIONS) as broker, wire(broker) as client:
        assert await client.log_in() == 0
        await client.send(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        assert await client.is_closed()


async def test_a_lapsed_session() -> None:
    short = {**WITH_SESSIONS, "listener.name.main.plain.connections.max.reauth.ms": "1"}
    async with serving_on_sockets(short) as broker, wire(broker) as client:
        assert await client.log_in() == 0
        await asyncio.sleep(0.005)
        assert await client.log_in() == 0, "a log-in is still possible"
        await asyncio.sleep(0.005)
        await client.send(MetadataRequest(topics=[]), 1)
        assert await client.is_closed()


async def test_a_client_that_does_not_log_in_is_closed() -> None:
    async with (
        serving_on_sockets({**PLAIN, "odradek.authentication.timeout.ms": "50"}) as broker,
        wire(broker) as silent,
    ):
        await silent.handshake()
        assert await silent.is_closed()


async def test_the_oldest_gives_way_if_too_many_have_not_logged_in() -> None:
    few = {**PLAIN, "odradek.max.unauthenticated.connections": "2"}
    async with serving_on_sockets(few) as broker, wire(broker) as first, wire(broker) as second:
        for client in (first, second):
            await client.versions()
        async with wire(broker) as third:
            assert await third.log_in() == 0
            assert await first.is_closed()
            assert await second.log_in() == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "it is not supported; choose from PLAIN"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, r"gssapi\.sasl\.jaas\.config: must be set"),
        ({"plain.sasl.jaas.config": "nonsense"}, "is not a JAAS line"),
        ({"plain.sasl.jaas.config": SCRAM}, "PLAIN needs PlainLoginModule"),
        ({"plain.sasl.server.callback.handler.class": "com.example.X"}, "write module:Class"),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER"},
            r"oauthbearer\.sasl\.jaas\.config: must be set",
        ),
    ],
)
async def test_what_cannot_work_is_refused_at_the_start(
    changes: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("KAFKA_OPTS", "JAVA_OPTS", "JAVA_TOOL_OPTIONS"):
        monkeypatch.delenv(variable, raising=False)
    properties = {**PLAIN, **{f"listener.name.main.{name}": text for name, text in changes.items()}}
    settings = BrokerSettings.from_properties(
        {**properties, "odradek.metadata.store": "memory", "log.dirs": "/data"}
    )
    with pytest.raises(BrokerCannotStart, match=message):
        await Broker(settings, World(disk=MemoryDisk())).run()


async def test_tokens_of_an_unasked_kind() -> None:
    async with serving_on_sockets(PLAIN) as broker, wire(broker) as client:
        await client.handshake("SCRAM-SHA-256")
        answer = await client.ask(
            SaslAuthenticateRequest(auth_bytes=b"garbage"), SaslAuthenticateResponse, 1
        )
        assert answer.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL"
            " mechanism SCRAM-SHA-256"
        )
