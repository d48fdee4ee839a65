"""Serializers and deserializers of keys and values.

Any function can be one; those of Kafka's clients are here by name and give the same bytes. None
stays None: it is a missing key or a tombstone.
"""

import json
from collections.abc import Callable
from struct import Struct
from typing import Any

from odradek.client.errors import SettingsError

Serializer = Callable[[Any], bytes | None]
Deserializer = Callable[[bytes], Any]

_INTEGER = Struct(">i")
_LONG = Struct(">q")
_SHORT = Struct(">h")
_FLOAT = Struct(">f")
_DOUBLE = Struct(">d")


def _to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


_PAIRS: dict[str, tuple[Serializer | None, Deserializer | None]] = {
    "bytes": (None, None),
    "string": (str.encode, lambda data: str(data, "utf-8")),
    "integer": (_INTEGER.pack, lambda data: _INTEGER.unpack(data)[0]),
    "long": (_LONG.pack, lambda data: _LONG.unpack(data)[0]),
    "short": (_SHORT.pack, lambda data: _SHORT.unpack(data)[0]),
    "float": (_FLOAT.pack, lambda data: _FLOAT.unpack(data)[0]),
    "double": (_DOUBLE.pack, lambda data: _DOUBLE.unpack(data)[0]),
    "json": (_to_json, json.loads),
}

_JAVA_PREFIX = "org.apache.kafka.common.serialization."


def serializer_named(name: str) -> Serializer | None:
    return _pair(name, "Serializer")[0]


def deserializer_named(name: str) -> Deserializer | None:
    return _pair(name, "Deserializer")[1]


def _pair(name: str, suffix: str) -> tuple[Serializer | None, Deserializer | None]:
    """Finds a pair by our name or by Kafka's class name: `string`, `org...StringSerializer`."""
    short = name.removeprefix(_JAVA_PREFIX).removesuffix(suffix).lower()
    pair = _PAIRS.get("bytes" if short in {"bytearray", "bytebuffer"} else short)
    if pair is None:
        raise SettingsError(f"must be a function, or one of {', '.join(_PAIRS)}")
    return pair
