"""Loggers as settings of a broker, and the request log that they turn on and off."""

import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from odradek.broker.config_resources import ConfigResourceType
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_configs import (
    AlterableConfig as ReplacingConfig,
)
from odradek.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from odradek.protocol.messages.alter_configs import AlterConfigsResource as ReplacingResource
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.types import Offset, TopicId
from odradek.telemetry import logs
from tests.unit.broker.harness import Client, batch, on_broker, with_broker
from tests.unit.telemetry.levels import default_levels

Connect = Callable[[], Awaitable[Client]]

SET, DELETE, APPEND = 0, 1, 2
BROKER_ID = "1"


async def alter(
    client: Client,
    *changes: tuple[str, str | None],
    operation: int = SET,
    broker: str = BROKER_ID,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.BROKER_LOGGER,
        resource_name=broker,
        configs=[
            AlterableConfig(name=name, value=value, config_operation=operation)
            for name, value in changes
        ],
    )
    response = await client.ask(
        IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only),
        IncrementalAlterConfigsResponse,
    )
    (answer,) = response.responses
    return answer.error_code, answer.error_message


async def described(
    client: Client, names: list[str] | None = None, broker: str = BROKER_ID
) -> dict[str, str | None]:
    resource = DescribeConfigsResource(
        resource_type=ConfigResourceType.BROKER_LOGGER,
        resource_name=broker,
        configuration_keys=names,
    )
    response = await client.ask(
        DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse
    )
    (result,) = response.results
    assert result.error_code == 0, result.error_message
    assert {one.config_source for one in result.configs} == {6}, "dynamic broker logger"
    return {one.name: one.value for one in result.configs}


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def listening() -> Iterator[list[str]]:
    """What the request log says; the levels are those of a fresh process, and at the end those
    that they were before."""
    handler = _Lines()
    logger = logging.getLogger(logs.REQUESTS)
    logger.addHandler(handler)
    try:
        with default_levels():
            yield handler.lines
    finally:
        logger.removeHandler(handler)


def test_levels_are_set_shown_and_given_back() -> None:
    async def test(connect: Connect) -> None:
        client = await connect()
        before = await described(client)
        assert before["odradek.request"] == before["kafka.request.logger"] == "WARN"
        assert before["root"] == before["odradek"] == before["odradek.controller"] == "INFO"
        assert await alter(client, ("kafka.controller", "DEBUG"), ("odradek.storage", "error")) == (
            0,
            None,
        )
        assert await described(client, ["odradek.controller", "odradek.storage", "root"]) == {
            "odradek.controller": "DEBUG",
            "odradek.storage": "ERROR",
            "root": "INFO",
        }
        await alter(client, ("odradek.controller", None), operation=DELETE)
        await alter(client, ("odradek.storage", ""), operation=DELETE)
        assert await described(client) == before

    with listening():
        with_broker(test)


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    async def test(connect: Connect) -> None:
        client = await connect()
        before = await described(client)
        good = ("odradek.server", "DEBUG")
        for change, operation, code in (
            (("no.such.logger", "INFO"), SET, ErrorCode.INVALID_CONFIG),
            (("no.such.logger", None), DELETE, ErrorCode.INVALID_CONFIG),
            (("odradek.request", "LOUD"), SET, ErrorCode.INVALID_CONFIG),
            (("odradek.request", None), SET, ErrorCode.INVALID_REQUEST),
            (("odradek.request", "INFO"), APPEND, ErrorCode.INVALID_REQUEST),
            (("odradek.request", "INFO"), 9, ErrorCode.INVALID_REQUEST),
            (good, SET, ErrorCode.INVALID_REQUEST),  # Twice.
        ):
            assert (await alter(client, good, change, operation=operation))[0] == code
        for broker in ("2", "", "x"):
            found, message = await alter(client, good, broker=broker)
            assert (found, bool(message)) == (ErrorCode.INVALID_REQUEST, True)
        assert await alter(client, good, validate_only=True) == (0, None)
        replacing = ReplacingResource(
            resource_type=ConfigResourceType.BROKER_LOGGER,
            resource_name=BROKER_ID,
            configs=[ReplacingConfig(name=good[0], value=good[1])],
        )
        response = await client.ask(
            AlterConfigsRequest(resources=[replacing]), AlterConfigsResponse
        )
        assert response.responses[0].error_code == ErrorCode.INVALID_REQUEST
        assert await described(client) == before

    with listening():
        with_broker(test)


LINE = re.compile(
    r"api=(?P<api>\w+) version=\d+ correlation=\d+ client=(?P<client>\S+) connection=\S+:\d+"
    r" listener=PLAINTEXT principal=User:ANONYMOUS request_bytes=\d+ queue_ms=(?P<queue>[\d.]+)"
    r" local_ms=(?P<local>[\d.]+) remote_ms=(?P<remote>[\d.]+) send_ms=(?P<send>[\d.]+)"
    r" total_ms=(?P<total>[\d.]+) error=(?P<error>\S+)"
)


async def produce_and_fetch(client: Client, topic_id: TopicId) -> None:
    data = PartitionProduceData(index=0, records=batch(b"a"))
    await client.ask(
        ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(name="t", topic_id=topic_id, partition_data=[data]),
            ],
        ),
        ProduceResponse,
    )
    for offset in (0, 1):
        asked = FetchPartition(
            partition=0, fetch_offset=Offset(offset), partition_max_bytes=1 << 20
        )
        await client.ask(
            FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=[asked])],
            ),
            FetchResponse,
        )


@on_broker()
async def test_the_request_log_tells_each_request_while_it_is_on(connect: Connect) -> None:
    with listening() as lines:
        client = await connect()
        topic_id = TopicId(await client.create_topic("t"))
        await alter(client, ("odradek.request", "DEBUG"))
        assert lines == [], "it was off when this request came"
        late = await connect()
        await produce_and_fetch(client, topic_id)
        await late.ask(
            MetadataRequest(
                topics=[MetadataRequestTopic(name="missing")], allow_auto_topic_creation=False
            ),
            MetadataResponse,
        )
        await alter(client, ("odradek.request", None), operation=DELETE)
        told = len(lines)
        await produce_and_fetch(client, topic_id)
        assert len(lines) == told, "it is off again"
    matches = [LINE.fullmatch(line) for line in lines]
    assert all(matches), lines
    requests = [match.groupdict() for match in matches if match is not None]
    assert [one["api"] for one in requests if one["api"] != "ApiVersions"] == [
        *("Produce", "Fetch", "Fetch", "Metadata")
    ]
    metadata = next(one for one in requests if one["api"] == "Metadata")
    assert metadata["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    first, waiting = (one for one in requests if one["api"] == "Fetch")
    assert (first["error"], first["client"]) == ("NONE", "test")
    # The second fetch has nothing to read, and waits as long as it was told to.
    assert 500 <= float(waiting["remote"]) < 510
    assert float(waiting["total"]) >= float(waiting["remote"])
