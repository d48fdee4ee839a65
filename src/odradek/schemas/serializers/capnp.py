"""Cap'n Proto structs, by pycapnp: a plug-in without a registry, as both sides have the file.

    value.serializer=capnp
    value.capnp.file=order.capnp
    value.capnp.struct=Order

Values are dicts, or builders of pycapnp. Messages are written packed. In a program:
`CapnpSerializer("order.capnp", "Order")`. The extra `capnp` installs the library.
"""

import os
from collections.abc import Mapping
from typing import Any

from odradek.schemas.errors import BadPayload, BadSetting
from odradek.world.installing import install_line


class CapnpStruct:
    """What serializer and deserializer have in common: a struct of a file."""

    def __init__(self, file: str | None = None, struct: str | None = None) -> None:
        self._kind: Any = None
        self._name = ""
        if file is not None:
            self._load(file, struct)

    def configure(self, properties: Mapping[str, Any], is_key: bool) -> None:
        """Called by a client whose properties name this class."""
        prefix = f"{'key' if is_key else 'value'}.capnp."
        if self._kind is None:
            file = properties.get(f"{prefix}file")
            if not file:
                raise BadSetting(f"{prefix}file is not set: name the .capnp file")
            self._load(str(file), properties.get(f"{prefix}struct"))

    def _load(self, file: str, struct: str | None) -> None:
        try:
            import capnp  # noqa: PLC0415 - it is an extra
        except ModuleNotFoundError:
            raise BadSetting(f"pycapnp is not installed: {install_line('capnp')}") from None

        try:
            module = capnp.load(os.path.abspath(file))
        except (OSError, capnp.KjException) as error:
            raise BadSetting(f"{file} cannot be read as Cap'n Proto: {error}") from None
        if struct is None or not hasattr(module, struct):
            raise BadSetting(f"{file} has no struct {struct}: name one with capnp.struct")
        self._kind, self._name = getattr(module, struct), struct


class CapnpSerializer(CapnpStruct):
    def serialize(self, value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            message = self._kind.new_message(**value) if isinstance(value, dict) else value
            return bytes(message.to_bytes_packed())
        except Exception as error:
            # pycapnp raises what a wrong value makes it stumble over.
            raise BadPayload(f"a value is no {self._name}: {_first_line(error)}") from error

    __call__ = serialize


class CapnpDeserializer(CapnpStruct):
    """Returns dicts."""

    def deserialize(self, data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return self._kind.from_bytes_packed(data).to_dict()
        except Exception as error:
            # pycapnp raises exceptions of many types for malformed bytes.
            raise BadPayload(f"a value is no {self._name}: {_first_line(error)}") from error

    __call__ = deserialize


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
