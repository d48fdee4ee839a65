"""Encodes and decodes the values of nodes in the metadata store, which are JSON objects."""

import json
from collections.abc import Mapping
from typing import cast

from odradek.metadata.store import MetadataError
from odradek.protocol.types import BrokerId

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class MalformedNode(MetadataError):
    """A node whose value is not what a node at its path must hold."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"the metadata store holds something unexpected at {path}: {reason}")


def encode_fields(fields: Mapping[str, Json]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


class JsonFields:
    """The fields of a JSON object. Each method reads a field of one type. It raises `MalformedNode`
    if the field has another type, or is missing and there is no default."""

    __slots__ = ("_fields", "_path")

    def __init__(self, path: str, value: bytes) -> None:
        self._path = path
        try:
            fields = json.loads(value)
        except (ValueError, RecursionError):
            raise MalformedNode(path, "it is not JSON") from None
        if not isinstance(fields, dict):
            raise MalformedNode(path, "it is not a JSON object")
        self._fields: dict[str, Json] = fields

    def _malformed(self, name: str, expected: str) -> MalformedNode:
        return MalformedNode(self._path, f"{name} is not {expected}")

    def integer(self, name: str, default: int | None = None) -> int:
        value = self._fields.get(name, default)
        if type(value) is not int:
            raise self._malformed(name, "a whole number")
        return value

    def integer_or_text(self, name: str) -> int:
        """Returns an integer that may also be written as text: Kafka writes timestamps so."""
        value = self._fields.get(name)
        if isinstance(value, str):
            # int() alone would take "1_000" and digits of other scripts.
            if value.isascii() and value.removeprefix("-").isdigit():
                return int(value)
            raise self._malformed(name, "a whole number")
        return self.integer(name)

    def broker_ids(
        self, name: str, default: tuple[BrokerId, ...] | None = None
    ) -> tuple[BrokerId, ...]:
        if default is not None and name not in self._fields:
            return default
        return self._broker_ids(name, self._fields.get(name))

    def _broker_ids(self, name: str, value: Json) -> tuple[BrokerId, ...]:
        if not isinstance(value, list):
            raise self._malformed(name, "a list")
        numbers = tuple(item for item in value if type(item) is int)
        if len(numbers) != len(value):
            raise self._malformed(name, "a list of whole numbers")
        return cast("tuple[BrokerId, ...]", numbers)

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise self._malformed(name, "text")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._fields.get(name) is None else self.text(name)

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        if default is not None and name not in self._fields:
            return default
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise self._malformed(name, "a list")
        texts = tuple(item for item in value if isinstance(item, str))
        if len(texts) != len(value):
            raise self._malformed(name, "a list of texts")
        return texts

    def text_map(self, name: str) -> dict[str, str]:
        value = self._fields.get(name)
        if not isinstance(value, dict):
            raise self._malformed(name, "an object")
        texts = {key: item for key, item in value.items() if isinstance(item, str)}
        if len(texts) != len(value):
            raise self._malformed(name, "an object of texts")
        return texts

    def broker_ids_by_partition(
        self, name: str, *, is_optional: bool = False
    ) -> dict[int, tuple[BrokerId, ...]]:
        value = self._fields.get(name, {} if is_optional else None)
        if not isinstance(value, dict):
            raise self._malformed(name, "an object")
        if not all(key.isascii() and key.isdigit() for key in value):
            raise MalformedNode(self._path, f"{name} has a key that is not a partition number")
        return {int(key): self._broker_ids(name, item) for key, item in value.items()}
