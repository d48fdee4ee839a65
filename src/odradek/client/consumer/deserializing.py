"""Deserializes the records of a batch with the deserializers of one consumer."""

from typing import Final

from odradek.client.consumer.fetched_batches import ConsumerRecord, Deserialize
from odradek.client.errors import ClientError, DeserializationFailed, DeserializerUnavailable
from odradek.client.named_classes import close_all
from odradek.client.serialization import Bound, SerializationContext, bind_deserializer
from odradek.client.settings import ConsumerSettings
from odradek.protocol.types import TopicPartition
from odradek.world.blocking_calls import MustBlock

_NONE: Final = (None, False, None)


class Deserializers:
    """The deserializers of a consumer, made and configured once, closed with it."""

    def __init__(self, settings: ConsumerSettings) -> None:
        all_settings = settings.for_classes()
        self._key = bind_deserializer(settings.key_deserializer, all_settings, "key")
        self._value = bind_deserializer(settings.value_deserializer, all_settings, "value")
        self.deserialize: Deserialize | None = deserializer_of(self._key, self._value)

    def close(self) -> None:
        close_all(*(bound.owner for bound in (self._key, self._value) if bound is not None))


def deserializer_of(for_keys: Bound | None, for_values: Bound | None) -> Deserialize | None:
    """Returns a function that deserializes records, or None if there are no deserializers.

    The function returns the records before the first one that fails, and its error, or `MustBlock`
    if a thread must do something first: it is called again with that record and those after it.
    """
    if for_keys is None and for_values is None:
        return None
    key_of, key_in_context, _ = for_keys or _NONE
    value_of, value_in_context, _ = for_values or _NONE

    def deserialize(
        records: list[ConsumerRecord],
    ) -> tuple[list[ConsumerRecord], ClientError | MustBlock | None]:
        done: list[ConsumerRecord] = []
        new = tuple.__new__  # in place of `_replace`, which takes longer than most deserializers
        for record in records:
            topic, partition, offset, time_ms, kind, key, value, headers, epoch = record
            try:
                if key_of is not None and key is not None:
                    if key_in_context:
                        key = key_of(key, SerializationContext(topic, "key", headers))
                    else:
                        key = key_of(key)
                if value_of is not None and value is not None:
                    if value_in_context:
                        value = value_of(value, SerializationContext(topic, "value", headers))
                    else:
                        value = value_of(value)
            except MustBlock as waiting:
                return done, waiting
            except Exception as error:  # noqa: BLE001 - it is the user's function
                return done, _failure(record, error)
            fields = (topic, partition, offset, time_ms, kind, key, value, headers, epoch)
            done.append(new(ConsumerRecord, fields))
        return done, None

    return deserialize


def _failure(record: ConsumerRecord, error: Exception) -> ClientError:
    partition = TopicPartition(record.topic, record.partition)
    fault: DeserializationFailed
    if isinstance(error, OSError):
        # A server did not answer, which says nothing about the record.
        fault = DeserializerUnavailable(
            f"{partition} at offset {record.offset}: {error}; poll() tries again",
            partition,
            record.offset,
        )
        fault.__cause__ = error
        return fault
    fault = DeserializationFailed(
        f"{partition} at offset {record.offset}: {error!r}; to pass it over:"
        f" seek({tuple(partition)}, {record.offset + 1})",
        partition,
        record.offset,
    )
    fault.__cause__ = error
    return fault
