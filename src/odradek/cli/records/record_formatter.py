"""Turns a record into the text that the console consumer prints. Pure: record in, bytes out.

Columns come in Kafka's order: timestamp, partition, offset, epoch, headers, key, value.
"""

from typing import Protocol

from odradek.config.spelling import did_you_mean
from odradek.tools.failures import UsageError
from odradek.tools.known_names import is_true, require_known

_DESERIALIZERS = {
    "StringDeserializer": None,
    "ByteArrayDeserializer": None,
    "BytesDeserializer": None,
    "ShortDeserializer": 2,
    "IntegerDeserializer": 4,
    "LongDeserializer": 8,
    "FloatDeserializer": "f",
    "DoubleDeserializer": "d",
    "UUIDDeserializer": None,
    "VoidDeserializer": None,
    "BooleanDeserializer": "?",
}


class PrintedRecord(Protocol):
    """The fields of a consumed record that are printed."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> "list[tuple[str, bytes | None]]": ...


PROPERTIES = (
    "print.timestamp",
    "print.partition",
    "print.offset",
    "print.epoch",
    "print.headers",
    "print.key",
    "print.value",
    "key.separator",
    "line.separator",
    "headers.separator",
    "null.literal",
    "key.deserializer",
    "value.deserializer",
)


# Which other property each of these belongs to; without `print.key`, columns are separated too.
NEEDS = {
    "key.separator": (
        "print.key",
        *(name for name in PROPERTIES if name.startswith("print.") and name != "print.value"),
    ),
    "headers.separator": ("print.headers",),
    "key.deserializer": ("print.key",),
}


class Formatter(Protocol):
    """Makes the bytes to print of a record."""

    def format(self, record: PrintedRecord) -> bytes: ...


class RecordFormatter:
    """Formats records as Kafka's DefaultMessageFormatter does."""

    def __init__(self, properties: dict[str, str]) -> None:
        """Raises `UsageError` for a property that would have no effect."""
        require_known("formatter property", properties, PROPERTIES)

        def prints(part: str, default: str = "false") -> bool:
            name = f"print.{part}"
            return is_true("formatter property", name, properties.get(name, default))

        self._timestamp = prints("timestamp")
        self._partition = prints("partition")
        self._offset = prints("offset")
        self._epoch = prints("epoch")
        self._headers = prints("headers")
        self._key = prints("key")
        self._value = prints("value", "true")
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._decode_key = Deserializer(properties.get("key.deserializer"))
        self._decode_value = Deserializer(properties.get("value.deserializer"))
        self._only_value = self._value and not any(
            (self._timestamp, self._partition, self._offset, self._epoch, self._headers, self._key)
        )

    def format(self, record: PrintedRecord) -> bytes:
        value = self._null if record.value is None else self._decode_value(record.value)
        if self._only_value:
            return value + self._line_end
        columns = self._columns(record)
        if self._value:
            columns.append(value)
        return self._separator.join(columns) + self._line_end if columns else b""

    def _columns(self, record: PrintedRecord) -> list[bytes]:
        columns = []
        if self._timestamp:
            columns.append(_timestamp(record))
        if self._partition:
            columns.append(b"Partition:%d" % record.partition)
        if self._offset:
            columns.append(b"Offset:%d" % record.offset)
        if self._epoch:
            epoch = record.leader_epoch
            columns.append(b"Epoch:%d" % epoch if epoch >= 0 else b"Epoch:NOT_PRESENT")
        if self._headers:
            columns.append(self._all_headers(record))
        if self._key:
            columns.append(self._null if record.key is None else self._decode_key(record.key))
        return columns

    def _all_headers(self, record: PrintedRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self._headers_separator.join(
            name.encode() + b":" + (self._null if value is None else value)
            for name, value in record.headers
        )


class JsonFormatter:
    """Prints each record as a line of JSON. Bytes that are not text are given in base64."""

    def format(self, record: PrintedRecord) -> bytes:
        import json

        fields = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "timestampType": "LogAppendTime" if record.timestamp_type == 1 else "CreateTime",
            **_json_bytes("key", record.key),
            **_json_bytes("value", record.value),
            "headers": [
                {"name": name, **_json_bytes("value", value)} for name, value in record.headers
            ],
        }
        text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
        return text.encode("utf-8", errors="replace") + b"\n"


def _json_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        from base64 import b64encode

        return {f"{name}Base64": b64encode(data).decode()}


def _timestamp(record: PrintedRecord) -> bytes:
    if record.timestamp_ms < 0:
        return b"NO_TIMESTAMP"
    kind = b"LogAppendTime" if record.timestamp_type == 1 else b"CreateTime"
    return b"%s:%d" % (kind, record.timestamp_ms)


class Deserializer:
    """Converts bytes to text as Kafka's deserializer of that name does."""

    def __init__(self, class_name: str | None) -> None:
        short = (class_name or "StringDeserializer").rpartition(".")[2]
        if short not in _DESERIALIZERS:
            # `long`, as the settings of our own client have it.
            short = short if short.lower().endswith("er") else f"{short}Deserializer"
            near = did_you_mean(short, _DESERIALIZERS)
            known = near or f"; there are {', '.join(_DESERIALIZERS)}"
            raise UsageError(f"no deserializer {class_name}{known}")
        self._name = short
        self._shape = _DESERIALIZERS[short]

    def __call__(self, data: bytes) -> bytes:
        shape = self._shape
        if isinstance(shape, int):
            _require(len(data) == shape, self._name, data)
            return b"%d" % int.from_bytes(data, "big", signed=True)
        if isinstance(shape, str):
            import struct

            _require(len(data) == struct.calcsize(">" + shape), self._name, data)
            (number,) = struct.unpack(">" + shape, data)
            return str(number).lower().encode() if shape == "?" else repr(number).encode()
        return data


def _require(fits: bool, name: str, data: bytes) -> None:
    if not fits:
        raise ValueError(f"{name} cannot read {len(data)} bytes")
