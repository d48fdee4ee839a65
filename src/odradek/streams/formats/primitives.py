"""One value as bytes, as Kafka's own serializers write it: `STRING`, `INTEGER`, `LONG`, `DOUBLE`,
`BYTES`, and `JSON`."""

import json
import struct
from collections.abc import Callable
from typing import Any, Final


class PrimitiveCodec:
    """Encodes and decodes with two functions. None stays None: it is a record without a value."""

    def __init__(
        self, name: str, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]
    ) -> None:
        self.name = name
        self._encode = encode
        self._decode = decode

    def encode(self, value: Any) -> bytes | None:
        return None if value is None else self._encode(value)

    def decode(self, data: bytes | None) -> Any:
        return None if data is None else self._decode(data)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        """Another process has the same codec: it is known by its name in this module."""
        return self.name


def _packed(name: str, form: str) -> PrimitiveCodec:
    packing = struct.Struct(form)

    def encode(value: Any) -> bytes:
        try:
            return packing.pack(value)
        except struct.error as error:
            raise ValueError(f"{value!r} is no {name}: {error}") from None

    def decode(data: bytes) -> Any:
        if len(data) != packing.size:
            raise ValueError(f"a {name} has {packing.size} bytes, not {len(data)}")
        return packing.unpack(data)[0]

    return PrimitiveCodec(name, encode, decode)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


STRING: Final = PrimitiveCodec(
    "STRING", lambda text: str(text).encode(), lambda data: data.decode()
)
INTEGER: Final = _packed("INTEGER", ">i")
LONG: Final = _packed("LONG", ">q")
DOUBLE: Final = _packed("DOUBLE", ">d")
BYTES: Final = PrimitiveCodec("BYTES", bytes, bytes)
JSON: Final = PrimitiveCodec("JSON", _json, json.loads)
