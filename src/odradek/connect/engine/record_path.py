"""The path of a record between a connector and Kafka: transforms and converters, and what happens
to a record that one of them cannot handle.

`SourceRunner` and `SinkRunner` have a `RecordPath` for each task.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from odradek.connect import plugins
from odradek.connect.connector_settings import ConnectorSettings
from odradek.connect.converters.converter import Converter
from odradek.connect.converters.simple_headers import SimpleHeaders
from odradek.connect.engine.failures import FailedAt, Place, Stage, failure
from odradek.connect.engine.figures import FailureFigures
from odradek.connect.errors import DataError
from odradek.connect.records import Header, Record, SinkRecord
from odradek.connect.transforms.chain import Chain, Link, properties_below
from odradek.world.blocking_calls import MustBlock

_log = logging.getLogger("odradek.connect")
R = TypeVar("R", bound=Record)

_DEFAULT_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"


class HeaderConverter(Protocol):
    def from_connect(self, header: Header) -> bytes | None: ...

    def to_connect(self, name: str, data: bytes | None) -> Header: ...


class ConvertedHeaders:
    """Uses a converter of values for headers."""

    def __init__(self, converter: Converter) -> None:
        self._converter = converter

    def from_connect(self, header: Header) -> bytes | None:
        return self._converter.from_connect(header.name, header.schema, header.value)

    def to_connect(self, name: str, data: bytes | None) -> Header:
        return Header(name, *self._converter.to_connect(name, data))

    def without_blocking(self) -> "ConvertedHeaders":
        return ConvertedHeaders(_without_blocking(self._converter))


class Converters(NamedTuple):
    """The converters of a connector. `names` are their class names, for messages about failures."""

    key: Converter
    value: Converter
    headers: HeaderConverter
    names: tuple[str, str, str] = (_DEFAULT_CONVERTER, _DEFAULT_CONVERTER, plugins.SIMPLE_HEADERS)


class Encoded(NamedTuple):
    """A record in the form in which the producer takes it."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int | None


T = TypeVar("T")


async def when_ready(
    call: Callable[[], T], in_thread: Callable[[Callable[[], None]], Awaitable[None]]
) -> T:
    """Returns the result of a call on the event loop. If the call must block, for example to get a
    schema from the registry, the blocking part runs in a thread, and then the call is repeated."""
    while True:
        try:
            return call()
        except MustBlock as waiting:
            await in_thread(waiting.call)


def _without_blocking(converter: Any) -> Any:
    """Returns the converter's variant for the event loop, if it has one: see `when_ready`."""
    make_variant = getattr(converter, "without_blocking", None)
    return converter if make_variant is None else make_variant()


class RecordPath:
    """The transforms and converters of one connector. If one fails, the methods raise a `FailedAt`,
    which names the stage and the class that failed."""

    def __init__(self, converters: Converters, chain: Chain) -> None:
        self.converters = converters
        self.chain = chain
        key, value, headers = converters.names
        self._key = Place(Stage.KEY_CONVERTER, key)
        self._value = Place(Stage.VALUE_CONVERTER, value)
        self._headers = Place(Stage.HEADER_CONVERTER, headers)
        self._last_headers: tuple[Header, ...] = ()
        self._encoded_headers: list[tuple[str, bytes | None]] = []

    def without_blocking(self) -> "RecordPath":
        """Returns the same path for an event loop: see `when_ready`."""
        key, value, headers, names = self.converters
        return RecordPath(
            Converters(
                _without_blocking(key), _without_blocking(value), _without_blocking(headers), names
            ),
            self.chain,
        )

    def changed(self, record: R) -> R | None:
        """Returns the record after all transforms; None if one of them dropped it."""
        changed: R | None = record
        for link in self.chain.links:
            if changed is None:
                return None
            try:
                changed = link.apply(changed)
            except Exception as error:
                raise failure(Place(Stage.TRANSFORMATION, link.class_name), error) from error
        return changed

    def encoded(self, record: Record) -> Encoded:
        """Returns a record of a source as bytes for the producer."""
        keys, values, to_headers, _ = self.converters
        place = self._headers
        try:
            if record.headers is not self._last_headers:
                # Many sources give the same tuple of headers to all records.
                self._encoded_headers = [
                    (header.name, to_headers.from_connect(header)) for header in record.headers
                ]
                self._last_headers = record.headers
            place = self._key
            key = keys.from_connect(record.topic, record.key_schema, record.key)
            place = self._value
            value = values.from_connect(record.topic, record.value_schema, record.value)
        except Exception as error:
            raise failure(place, error) from error
        headers = self._encoded_headers
        return Encoded(record.topic, record.partition, key, value, headers, record.timestamp_ms)

    def decoded(self, read: Any) -> SinkRecord:
        """Returns the record for a sink, made from one that a consumer has returned."""
        keys, values, of_headers, _ = self.converters
        topic = read.topic
        place = self._key
        try:
            key_schema, key = keys.to_connect(topic, read.key)
            place = self._value
            value_schema, value = values.to_connect(topic, read.value)
            place = self._headers
            headers = tuple(of_headers.to_connect(name, data) for name, data in read.headers)
        except Exception as error:
            raise failure(place, error) from error
        return SinkRecord(
            topic, key, value, key_schema, value_schema, read.partition, read.timestamp_ms, headers,
            read.offset, topic, read.partition, tuple(read.headers),
        )  # fmt: skip


def as_read(read: Any) -> SinkRecord:
    """Returns a record that a consumer has returned, not decoded, for the dead-letter topic."""
    return SinkRecord(
        read.topic,
        read.key,
        read.value,
        partition=read.partition,
        timestamp_ms=read.timestamp_ms,
        offset=read.offset,
        original_topic=read.topic,
        original_partition=read.partition,
        raw_headers=tuple(read.headers),
    )


def path_of(properties: Mapping[str, str], worker: Mapping[str, str]) -> RecordPath:
    """Returns the path for a connector's properties. `worker` has the worker's converters, which a
    connector uses unless it names its own. Raises `InvalidConfig`."""
    key, key_name = _converter("key.converter", properties, worker)
    value, value_name = _converter("value.converter", properties, worker)
    headers, headers_name = _header_converter(properties, worker)
    return RecordPath(
        Converters(key, value, headers, (key_name, value_name, headers_name)),
        Chain([_link(alias, properties) for alias in _names(properties.get("transforms"))]),
    )


def _converter(
    name: str, properties: Mapping[str, str], worker: Mapping[str, str]
) -> tuple[Converter, str]:
    """Returns a converter, and the name of its class."""
    given = properties if name in properties else worker
    class_name = given.get(name) or _DEFAULT_CONVERTER
    own = properties_below(f"{name}.", given)
    return plugins.make_converter(class_name, own, name.partition(".")[0]), class_name


def _header_converter(
    properties: Mapping[str, str], worker: Mapping[str, str]
) -> tuple[HeaderConverter, str]:
    name = "header.converter"
    given = properties.get(name) or worker.get(name) or plugins.SIMPLE_HEADERS
    if plugins.SIMPLE_HEADERS.endswith(given):
        return SimpleHeaders(), plugins.SIMPLE_HEADERS
    converter, class_name = _converter(name, properties, worker)
    return ConvertedHeaders(converter), class_name


def _link(alias: str, properties: Mapping[str, str]) -> Link:
    own = properties_below(f"transforms.{alias}.", properties)
    transform = plugins.make_transform(own["type"] or "", own)
    name = own.get("predicate")
    if not name:
        return Link(alias, transform, class_name=own["type"] or "")
    of_predicate = properties_below(f"predicates.{name}.", properties)
    predicate = plugins.make_predicate(of_predicate["type"] or "", of_predicate)
    is_negated = (own.get("negate") or "").lower() == "true"
    return Link(alias, transform, predicate, is_negated, own["type"] or "")


def _names(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


class FailedRecords(FailureFigures):
    """Handles failed records as the settings `errors.*` of a connector say, and counts them.

    `divert` writes a record to the dead-letter topic; it is None if the connector has none.
    """

    def __init__(
        self,
        settings: ConnectorSettings,
        connector: str,
        divert: "Callable[[Record, DataError], Awaitable[None]] | None" = None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._connector = connector
        self._divert = divert

    async def note(self, record: Record, error: DataError) -> None:
        """Logs a failed record if the settings say so. Then skips it, after writing it to the
        dead-letter topic, or raises the error if `errors.tolerance` is none."""
        settings = self._settings
        self.failed += 1
        if settings.errors_log_enable:
            where = f" at {error.place.stage.value}" if isinstance(error, FailedAt) else ""
            shown = f": {record}" if settings.errors_log_include_messages else ""
            _log.error(
                "%s: a record of topic %s failed%s: %s%s",
                self._connector, record.topic, where, error, shown,
            )  # fmt: skip
            self.logged += 1
        if settings.errors_tolerance == "none":
            raise error
        self.passed_over += 1
        if self._divert is not None:
            await self._divert(record, error)
            self.diverted += 1
