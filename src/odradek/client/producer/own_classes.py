"""What a program gives a producer of its own: serializers, a partitioner, interceptors.

`Producer` makes one of it, and closes it. Some of these objects want to see more of a record than
its bytes: then `sees_records` is true and `send` takes a slower path, through `serialized` and
`place`.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

from odradek.client.errors import ClientError, SerializerUnavailable
from odradek.client.named_classes import close_all
from odradek.client.producer.interceptors import (
    Interceptors,
    ProducerInterceptor,
    ProducerRecord,
)
from odradek.client.producer.partitioners import (
    RecordPartitioner,
    UnplacedRecord,
    partitioner_for,
)
from odradek.client.producer.record_bytes import as_headers, serialized, size_of
from odradek.client.serialization import Field, bind_serializer
from odradek.client.settings import ProducerSettings
from odradek.protocol.records import Headers
from odradek.world import Randomness
from odradek.world.blocking_calls import MustBlock


class SerializedRecord(NamedTuple):
    """A record, and the bytes that are sent of it."""

    record: ProducerRecord
    key: bytes | None
    value: bytes | None
    headers: Headers
    size_bytes: int


class OwnClasses:
    """The objects of one producer, made and configured once."""

    def __init__(
        self,
        settings: ProducerSettings,
        interceptors: Sequence[ProducerInterceptor],
        randomness: Randomness,
    ) -> None:
        all_settings = settings.for_classes()
        self.interceptors = Interceptors(
            (*settings.interceptor_classes, *interceptors), all_settings
        )
        self.key = bind_serializer(settings.key_serializer, all_settings, "key")
        self.value = bind_serializer(settings.value_serializer, all_settings, "value")
        fields: dict[Field, object] = {"key": self.key, "value": self.value}
        self.serialized_fields = frozenset(name for name in fields if fields[name] is not None)
        self.partitioner = partitioner_for(
            settings.partitioner_class,
            randomness,
            batch_size_bytes=settings.batch_size,
            ignore_keys=settings.partitioner_ignore_keys,
            settings=all_settings,
        )
        self._turn = asyncio.Lock()
        self._waiting = 0  # How many records wait for their turn, or for a serializer.
        self.sees_records = (
            bool(self.interceptors)
            or isinstance(self.partitioner, RecordPartitioner)
            or any(bound is not None and bound.takes_context for bound in (self.key, self.value))
        )

    def serialized(self, record: ProducerRecord) -> SerializedRecord | None:
        """Returns the bytes of a record, or None if it must wait for its `turn`: a serializer has
        to wait, or records before this one do."""
        if self._waiting:
            return None
        try:
            return self._serialize(record)
        except MustBlock:
            return None

    @asynccontextmanager
    async def turn(self, record: ProducerRecord) -> AsyncIterator[SerializedRecord]:
        """Waits for the records before this one, and for its serializers, and holds up later ones
        until it has its place. Raises `SerializerUnavailable` if a serializer waits in vain."""
        self._waiting += 1
        try:
            async with self._turn:
                yield await self._serialized_in_thread(record)
        finally:
            self._waiting -= 1

    async def _serialized_in_thread(self, record: ProducerRecord) -> SerializedRecord:
        while True:
            try:
                return self._serialize(record)
            except MustBlock as waiting:
                await asyncio.to_thread(waiting.call)
            except ClientError:
                raise
            except OSError as error:
                raise SerializerUnavailable(f"nothing was sent: {error}") from error

    def _serialize(self, record: ProducerRecord) -> SerializedRecord:
        """Serializers may add headers; at each attempt they begin with those of the record."""
        headers = list(as_headers(record.headers))
        key = serialized(self.key, record.key, record.topic, "key", headers)
        value = serialized(self.value, record.value, record.topic, "value", headers)
        size_bytes = size_of(key, value, headers, self.serialized_fields)
        return SerializedRecord(record, key, value, headers, size_bytes)

    def place(
        self, whole: SerializedRecord, all_partitions: Sequence[int], available: Sequence[int]
    ) -> int:
        """Returns the partition of a record for which the program names none."""
        record, partitioner = whole.record, self.partitioner
        choose = partial(
            partitioner.choose,
            record.topic,
            whole.key,
            whole.size_bytes,
            all_partitions,
            available,
        )
        if not isinstance(partitioner, RecordPartitioner):
            return choose()
        return partitioner.place(
            UnplacedRecord(
                record.topic,
                record.key,
                record.value,
                whole.headers,
                whole.key,
                whole.value,
                all_partitions,
                available,
                choose,
            )
        )

    def close(self) -> None:
        """Calls `close()` of the objects that have it."""
        self.interceptors.close()
        bound = [one.owner for one in (self.key, self.value) if one is not None]
        close_all(*bound, getattr(self.partitioner, "owner", None))
