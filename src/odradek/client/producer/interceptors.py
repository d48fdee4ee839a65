"""What a program may put between its own code and a producer.

An interceptor that raises in `on_send` makes send() raise. One that raises when it is told of an
outcome changes nothing about the outcome: that is logged, and the others are told, as in Kafka.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from odradek.client.calling import positional_parameters
from odradek.client.habits import explain
from odradek.client.named_classes import close_all, instance_of, warn_if_idle
from odradek.client.producer.deliveries import OnDelivery, RecordMetadata
from odradek.protocol.records import Headers
from odradek.wording import kind_of

_log = logging.getLogger("odradek.client")


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record as an interceptor sees it, before it is serialized."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class ProducerInterceptor(Protocol):
    """Sees every record before it is sent, and every outcome.

    It may also have `on_acknowledgement(metadata, error)`, or with a third argument `record`, the
    record that was sent; `configure(settings)`, called once with all settings by Kafka's names; and
    `close()`. In properties it is named `interceptor.classes=module:Class`.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Returns the record to send instead, or the same."""
        ...


_Told = Callable[[RecordMetadata | None, BaseException | None, ProducerRecord], None]


class Interceptors:
    """The interceptors of one producer, in their order."""

    def __init__(self, given: Iterable[Any], settings: Mapping[str, Any]) -> None:
        self._faults = 0
        self._objects = [instance_of(item, settings) for item in given]
        for item in self._objects:
            warn_if_idle(item, "producer", "on_send", "on_acknowledgement")
        self._on_send = [item.on_send for item in self._objects if hasattr(item, "on_send")]
        self._told: list[_Told] = [
            _of_three(item.on_acknowledgement)
            for item in self._objects
            if hasattr(item, "on_acknowledgement")
        ]

    def __bool__(self) -> bool:
        return bool(self._objects)

    def sent(self, record: ProducerRecord) -> ProducerRecord:
        """Returns the record that is sent instead."""
        for on_send in self._on_send:
            sent: object = on_send(record)
            if not isinstance(sent, ProducerRecord):
                name = getattr(on_send, "__qualname__", "on_send")
                raise TypeError(
                    f"{name}() returned {kind_of(sent)}: it must return the ProducerRecord to send"
                )
            record = sent
        return record

    def on_delivery(self, record: ProducerRecord, then: OnDelivery | None) -> OnDelivery | None:
        """Returns the callback that tells the interceptors of the outcome, and then the caller."""
        if not self._told:
            return then

        def acknowledged(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            self._tell(metadata, error, record)
            if then is not None:
                then(metadata, error)

        return acknowledged

    def not_sent(self, record: ProducerRecord, error: BaseException) -> None:
        """Tells the interceptors that send() raised, as Kafka does."""
        self._tell(None, error, record)

    def _tell(
        self, metadata: RecordMetadata | None, error: BaseException | None, record: ProducerRecord
    ) -> None:
        for told in self._told:
            try:
                told(metadata, error, record)
            except Exception as fault:  # noqa: BLE001 - it must not change the outcome
                explain(fault)
                if not self._faults:
                    _log.warning(
                        "an interceptor raised in on_acknowledgement; if it does so again, that is"
                        " only counted",
                        exc_info=True,
                    )
                self._faults += 1

    def close(self) -> None:
        if self._faults > 1:
            _log.warning("interceptors raised in on_acknowledgement %d times", self._faults)
        close_all(*self._objects)


def _of_three(function: Callable[..., None]) -> _Told:
    parameters = positional_parameters(function)
    if parameters is not None and parameters.can_take(3) and parameters.wants(2, "record"):
        return function
    return lambda metadata, error, record: function(metadata, error)
