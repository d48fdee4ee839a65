"""The changes of stores as records of a compacted topic, and stores out of them.

A record's key is the store's name and the key in the store; its value is the new value, or nothing
for a deletion. Both are MessagePack, in which tuples, decimals and the classes of the plan are told
apart by a mark: what is read is data, and never code.
"""

from decimal import Decimal
from typing import Any, Final

import msgspec

from odradek.streams.formats.hashable import hashable
from odradek.streams.plan.records import Timestamped, Window, Windowed

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder()
_TUPLES: Final[dict[type, str]] = {tuple: "(", Timestamped: "t", Window: "w", Windowed: "k"}
_MARKED: Final = {mark: kind for kind, mark in _TUPLES.items()}


def _marked(value: Any) -> Any:
    mark = _TUPLES.get(type(value))
    if mark is not None:
        return [mark, *map(_marked, value)]
    if isinstance(value, list):
        return ["[", *map(_marked, value)]
    if isinstance(value, dict):
        marked: list[Any] = ["{"]
        for key, one in value.items():
            marked += [_marked(key), _marked(one)]
        return marked
    if isinstance(value, Decimal):
        return ["d", str(value)]
    return value


def _unmarked(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    mark, *parts = value
    if mark == "d":
        return Decimal(parts[0])
    items = [_unmarked(part) for part in parts]
    if mark == "[":
        return items
    if mark == "{":
        return dict(zip(map(hashable, items[::2]), items[1::2], strict=True))
    kind = _MARKED.get(mark)
    if kind is None:
        raise ValueError(f"{mark!r} is not a mark of a changelog")
    return tuple(items) if kind is tuple else kind(*items)


def encode(value: Any) -> bytes:
    """Returns a value of a store as bytes. Values are plain: numbers, texts, bytes, collections."""
    return _ENCODER.encode(_marked(value))


def decode(data: bytes) -> Any:
    return _unmarked(_DECODER.decode(data))


def place(store: str, key: Any) -> bytes:
    """Returns the key of a changelog record."""
    return encode((store, key))
