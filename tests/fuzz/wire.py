"""A connection that sends any bytes and reads frames: the least a client can be."""

import asyncio
import struct
from collections.abc import Mapping

from odradek.protocol.apis import find_api
from odradek.protocol.headers import decode_response, encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from odradek.protocol.schema import Request, Response
from tests.fuzz.requests import Surroundings

# More than any answer to a fuzzer should be.
MAX_RESPONSE_BYTES = 64 << 20
PARTITIONS = 3


class MalformedAnswer(Exception):
    """The broker sent something that is not a response."""


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0

    @classmethod
    async def open(cls, host: str, port: int) -> "Wire":
        return cls(*await asyncio.open_connection(host, port))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    async def read_frame(self) -> bytes:
        """The next frame without its size; `ConnectionError` when the broker hung up."""
        try:
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            if not 4 <= size <= MAX_RESPONSE_BYTES:
                raise MalformedAnswer(f"a response of {size} bytes")
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise MalformedAnswer("the connection ended within a response") from None
            raise ConnectionResetError from None

    async def call(self, request: Request, version: int) -> Response:
        self._correlation_id += 1
        parts = encode_request(request, version, self._correlation_id, "fuzz")
        self._writer.write(b"".join(parts))  # type: ignore[arg-type]
        frame = await self.read_frame()
        correlation_id, response = decode_response(frame, request.api_key, version)
        assert correlation_id == self._correlation_id
        return response

    def close(self) -> None:
        self._writer.transport.abort()


async def look_around(wire: Wire, topics: Mapping[str, Mapping[str, str]]) -> Surroundings:
    """Makes the topics, and learns what the broker serves and what they are called."""
    wanted = [
        CreatableTopic(
            name=name,
            num_partitions=PARTITIONS,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in topics.items()
    ]
    await wire.call(CreateTopicsRequest(topics=wanted), 5)
    served = await wire.call(ApiVersionsRequest(), 0)
    assert isinstance(served, ApiVersionsResponse)
    versions = {}
    for row in served.api_keys:
        api = find_api(row.api_key)
        if api is None:
            continue
        first, last = max(row.min_version, api.min_version), min(row.max_version, api.max_version)
        if first <= last:
            versions[row.api_key] = (first, last)
    while True:
        found = await topic_ids(wire)
        if all(name in found for name in topics):
            return Surroundings(versions, list(topics), [found[name] for name in topics])
        await asyncio.sleep(0.05)


async def topic_ids(wire: Wire) -> dict[str, bytes]:
    return {topic.name or "": bytes(topic.topic_id) for topic in await _topics(wire)}


async def _topics(wire: Wire) -> list[MetadataResponseTopic]:
    answer = await wire.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
    assert isinstance(answer, MetadataResponse)
    return [topic for topic in answer.topics if not topic.is_internal and topic.partitions]


async def remove_others(wire: Wire, keep: set[str]) -> int:
    """Deletes the topics that inputs made or let grow by chance; how many there were."""
    others = [
        topic.name
        for topic in await _topics(wire)
        if topic.name not in keep or len(topic.partitions) > PARTITIONS
    ]
    if others:
        states = [DeleteTopicState(name=name) for name in others]
        await wire.call(DeleteTopicsRequest(topics=states, timeout_ms=30_000), 6)
    return len(others)
