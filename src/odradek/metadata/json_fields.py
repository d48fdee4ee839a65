"""Node values are JSON objects: encodes them, and reads their fields by the type each must have."""

import json
from collections.abc import Mapping

from odradek.metadata.store import MetadataError

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
    """The fields of a JSON object, each read by the type it must have."""

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

    def whole(self, name: str, default: int | None = None) -> int:
        value = self._fields.get(name, default)
        if type(value) is not int:
            raise self._malformed(name, "a whole number")
        return value

    def whole_text(self, name: str) -> int:
        value = self._fields.get(name)
        try:
            return int(value) if isinstance(value, str | int) else int("")
        except ValueError:
            raise self._malformed(name, "a whole number") from None

    def wholes(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        if default is not None and name not in self._fields:
            return default
        return self._wholes(name, self._fields.get(name))

    def _wholes(self, name: str, value: Json) -> tuple[int, ...]:
        if not isinstance(value, list):
            raise self._malformed(name, "a list")
        numbers = tuple(item for item in value if type(item) is int)
        if len(numbers) != len(value):
            raise self._malformed(name, "a list of whole numbers")
        return numbers

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise self._malformed(name, "text")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._fields.get(name) is None else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise self._malformed(name, "a list")
        return tuple(map(str, value))

    def text_map(self, name: str) -> dict[str, str]:
        value = self._fields.get(name)
        if not isinstance(value, dict):
            raise self._malformed(name, "an object")
        return {key: str(item) for key, item in value.items()}

    def replicas(self, name: str) -> dict[int, tuple[int, ...]]:
        value = self._fields.get(name, {})
        if not isinstance(value, dict):
            raise self._malformed(name, "an object")
        if not all(key.isascii() and key.isdigit() for key in value):
            raise self._malformed(name, "keyed by partition")
        return {int(key): self._wholes(name, item) for key, item in value.items()}
