"""Deserializes the records of a batch with the deserializers of one consumer."""

from collections.abc import Callable
from typing import Any

from odradek.client.consumer.fetched_batches import ConsumerRecord, Deserialize
from odradek.client.errors import ClientError, DeserializationFailed
from odradek.client.named_classes import close_all
from odradek.client.serialization import Bound, SerializationContext, bind_deserializer
from odradek.client.settings import ConsumerSettings
from odradek.protocol.types import TopicPartition


class Deserializers:
    """The deserializers of a consumer, made and configured once, closed with it."""

    def __init__(self, settings: ConsumerSettings) -> None:
        all_settings = settings.for_classes()
        self._key = bind_deserializer(settings.key_deserializer, all_settings, "key")
        self._value = bind_deserializer(settings.value_deserializer, all_settings, "value")
        self.deserialize: Deserialize | None = None
        if any(bound is not None and bound.takes_context for bound in (self._key, self._value)):
            self.deserialize = _in_context(self._key, self._value)
        else:
            self.deserialize = deserializer_of(
                None if self._key is None else self._key.function,
                None if self._value is None else self._value.function,
            )

    def close(self) -> None:
        close_all(*(bound.owner for bound in (self._key, self._value) if bound is not None))


def deserializer_of(
    key_of: Callable[[bytes], Any] | None, value_of: Callable[[bytes], Any] | None
) -> Deserialize | None:
    """Returns a function that deserializes records, or None if there are no deserializers.

    The function returns the records before the first one that fails, and its error.
    """
    if key_of is None and value_of is None:
        return None

    def deserialize(
        records: list[ConsumerRecord],
    ) -> tuple[list[ConsumerRecord], ClientError | None]:
        done: list[ConsumerRecord] = []
        new = tuple.__new__  # in place of `_replace`, which takes longer than most deserializers
        for record in records:
            topic, partition, offset, time_ms, kind, key, value, headers, epoch = record
            try:
                if key_of is not None and key is not None:
                    key = key_of(key)
                if value_of is not None and value is not None:
                    value = value_of(value)
            except Exception as error:  # noqa: BLE001 - it is the user's function
                return done, _failure(record, error)
            fields = (topic, partition, offset, time_ms, kind, key, value, headers, epoch)
            done.append(new(ConsumerRecord, fields))
        return done, None

    return deserialize


def _in_context(key_of: Bound | None, value_of: Bound | None) -> Deserialize:
    """The same for deserializers of which one wants to see topic and headers."""

    def one(bound: Bound | None, data: Any, record: ConsumerRecord, *, is_key: bool) -> Any:
        if bound is None or data is None:
            return data
        if not bound.takes_context:
            return bound.function(data)
        field = SerializationContext(record.topic, "key" if is_key else "value", record.headers)
        return bound.function(data, field)

    def deserialize(
        records: list[ConsumerRecord],
    ) -> tuple[list[ConsumerRecord], ClientError | None]:
        done: list[ConsumerRecord] = []
        for record in records:
            try:
                key = one(key_of, record.key, record, is_key=True)
                value = one(value_of, record.value, record, is_key=False)
            except Exception as error:  # noqa: BLE001 - it is the user's function
                return done, _failure(record, error)
            done.append(record._replace(key=key, value=value))
        return done, None

    return deserialize


def _failure(record: ConsumerRecord, error: Exception) -> ClientError:
    partition = TopicPartition(record.topic, record.partition)
    fault = DeserializationFailed(
        f"{partition} at offset {record.offset}: {error!r}", partition, record.offset
    )
    fault.__cause__ = error
    return fault
