"""What a program may put between a consumer and its own code."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from odradek.client.consumer.fetched_batches import ConsumerRecord
from odradek.client.group.offsets import Offsets
from odradek.client.named_classes import close_all, instance_of, warn_if_idle
from odradek.protocol.types import TopicPartition
from odradek.wording import kind_of

_log = logging.getLogger("odradek.client")


class ConsumerInterceptor(Protocol):
    """Sees all records before the program does, and every commit that succeeded.

    It may also have `on_commit(offsets)`; `configure(settings)`, called once with all settings by
    Kafka's names; and `close()`. In properties it is named `interceptor.classes=module:Class`.
    """

    def on_consume(
        self, records: dict[TopicPartition, list[ConsumerRecord]]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Returns the records that poll() returns instead, or the same."""
        ...


class Interceptors:
    """The interceptors of one consumer, in their order."""

    def __init__(self, given: Iterable[Any], settings: Mapping[str, Any]) -> None:
        self._objects = [instance_of(item, settings) for item in given]
        for item in self._objects:
            warn_if_idle(item, "consumer", "on_consume", "on_commit")

    def __bool__(self) -> bool:
        return bool(self._objects)

    def consumed(
        self, records: dict[TopicPartition, list[ConsumerRecord]]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Returns the records that poll() returns."""
        for item in self._objects:
            if hasattr(item, "on_consume"):
                consumed: object = item.on_consume(records)
                if not isinstance(consumed, dict):
                    raise TypeError(
                        f"{type(item).__qualname__}.on_consume() returned {kind_of(consumed)}: it"
                        " must return the records of each partition, as it got them"
                    )
                records = consumed
        return records

    def committed(self, offsets: Offsets) -> None:
        """Tells of a commit that succeeded; an interceptor cannot make it fail."""
        for item in self._objects:
            if hasattr(item, "on_commit"):
                try:
                    item.on_commit(offsets)
                except Exception:  # noqa: BLE001 - a fault of the user's must not change the outcome
                    _log.warning("an interceptor raised in on_commit", exc_info=True)

    def close(self) -> None:
        close_all(*self._objects)
