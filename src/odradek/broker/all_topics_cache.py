"""Metadata of all topics: encoded in steps, and once for all clients that ask.

Clients that start together, or lose a broker together, all ask for all topics at the same time. The
part of the response about topics is the same for all of them, unless ACLs hide some topics: it
depends on the cluster's image and on the version of the request. So it is encoded when the first
client asks, clients that ask meanwhile wait for it, and the bytes are kept until the image changes.
Every reply refers to the same bytes. Brokers and their addresses depend on the client's listener,
and are encoded for each client.

If there is an authorizer, the topics that a client may see are encoded for each request.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from odradek.broker.client_metadata import ClientMetadata
from odradek.metadata import ClusterImage, TopicImage
from odradek.protocol.messages.metadata import (
    API,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from odradek.protocol.schema import Response, array, int16, int32, string
from odradek.protocol.wire import unsigned_varint
from odradek.world.timeslice import Timeslice

# How many combinations of request version and options are kept.
_MAX_KEPT: Final = 8
# Topics with more partitions are encoded in steps. So many take a millisecond.
_MAX_PARTITIONS_PER_STEP: Final = 200

Describe = Callable[[ClusterImage, TopicImage], Iterator[MetadataResponseTopic | None]]
"""Describes a topic in steps: yields None after each step, and the description at the end."""


class MetadataHead(Response):
    """The fields before the topics of a Metadata response."""

    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)


class MetadataTopics(Response):
    """The topics of a Metadata response."""

    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)


class MetadataTail(Response):
    """The fields after the topics of a Metadata response."""

    cluster_authorized_operations: int = int32("8-10", default=-(2**31))
    error_code: int = int16("13+")


for _part in (MetadataHead, MetadataTopics, MetadataTail):
    API.bind(_part)


def encoded(message: Response, version: int) -> bytes:
    return b"".join(bytes(part) for part in message.encode(version) if isinstance(part, bytes))


def without_tags(data: bytes, version: int) -> bytes:
    """Removes the byte that says that there are no tagged fields: other fields follow here."""
    if not MetadataTopics.is_flexible(version):
        return data
    assert data.endswith(b"\0")
    return data[:-1]


class AllTopicsCache:
    """One for each broker. Invariant: the bytes that are kept were encoded from the topics and the
    brokers of the image that is kept with them."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, bool], _Kept] = {}

    async def current(
        self, images: ClientMetadata, version: int, describe: Describe, *, with_operations: bool
    ) -> tuple[ClusterImage, bytes]:
        """Returns the newest image, and its topics as they are encoded in a response."""
        key = (version, with_operations)
        kept = self._kept.pop(key, None) or _Kept()
        self._kept[key] = kept  # The combination that was used last is removed last.
        if len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        async with kept.lock:
            image = images.image
            if not kept.is_of(image):
                kept.topics = await encode_topics(image, version, describe)
                kept.image = image
            return image, kept.topics


class _Kept:
    __slots__ = ("image", "lock", "topics")

    def __init__(self) -> None:
        # The request that encodes the topics holds the lock; the others wait for it.
        self.lock = asyncio.Lock()
        self.image: ClusterImage | None = None
        self.topics = b""

    def is_of(self, image: ClusterImage) -> bool:
        kept = self.image
        return kept is not None and (
            kept is image
            or (kept.topics is image.topics and kept.brokers.keys() == image.brokers.keys())
        )


async def encode_topics(
    image: ClusterImage,
    version: int,
    describe: Describe,
    sees: Callable[[str], bool] | None = None,
) -> bytes:
    """Returns all topics in the order of their names, or those that the client sees. Each is
    encoded as soon as it is described: the objects of ten thousand topics, kept until the last
    is there, would be looked at by the collector and freed all at once."""
    timeslice = Timeslice.of_running_loop()
    topics: list[bytes] = []
    count = 0
    for name in sorted(image.topics):
        if timeslice.is_over():
            await timeslice.next_turn()
        if sees is not None and not sees(name):
            continue
        for step in describe(image, image.topics[name]):
            if step is not None:
                topics += await _encode_topic(step, version)
                count += 1
            elif timeslice.is_over():
                await timeslice.next_turn()
    return b"".join([_array_length(count, version), *topics])


async def _encode_topic(topic: MetadataResponseTopic, version: int) -> list[bytes]:
    """Returns the topic as an element of the array of topics."""
    message = MetadataTopics(topics=[topic])
    if len(topic.partitions) <= _MAX_PARTITIONS_PER_STEP:
        parts = message.encode(version)
    else:
        parts = await Timeslice.of_running_loop().run(message.encode_stepwise(version))
    encoded_parts = [part for part in parts if isinstance(part, bytes)]
    encoded_parts[0] = encoded_parts[0][len(_array_length(1, version)) :]
    encoded_parts[-1] = without_tags(encoded_parts[-1], version)
    return encoded_parts


def _array_length(count: int, version: int) -> bytes:
    if MetadataTopics.is_flexible(version):
        return unsigned_varint(count + 1)
    return count.to_bytes(4, "big")
