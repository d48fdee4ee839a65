"""Thrift structs, by thriftpy2: a plug-in without a registry, as both sides have the file.

    value.serializer=thrift
    value.thrift.file=order.thrift
    value.thrift.struct=Order

Values are dicts, or objects of thriftpy2's classes; `value.thrift.protocol` is `binary` (default)
or `compact`. In a program: `ThriftSerializer("order.thrift", "Order")`. The extra `thrift` installs
the library.
"""

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from odradek.schemas.errors import BadPayload, BadSetting
from odradek.world.installing import install_line


class ThriftStruct:
    """What serializer and deserializer have in common: a struct of a file."""

    def __init__(
        self, file: str | None = None, struct: str | None = None, protocol: str = "binary"
    ) -> None:
        self._kind: Any = None
        if file is not None:
            self._load(file, struct, protocol)

    def configure(self, properties: Mapping[str, Any], is_key: bool) -> None:
        """Called by a client whose properties name this class."""
        prefix = f"{'key' if is_key else 'value'}.thrift."
        if self._kind is None:
            file = properties.get(f"{prefix}file")
            if not file:
                raise BadSetting(f"{prefix}file is not set: name the .thrift file")
            protocol = str(properties.get(f"{prefix}protocol", "binary"))
            self._load(str(file), properties.get(f"{prefix}struct"), protocol)

    def _load(self, file: str, struct: str | None, protocol: str) -> None:
        try:
            import thriftpy2  # noqa: PLC0415 - it is an extra
        except ModuleNotFoundError:
            raise BadSetting(f"thriftpy2 is not installed: {install_line('thrift')}") from None
        from thriftpy2.parser.exc import ThriftParserError  # noqa: PLC0415

        # The compiled protocol takes any bytes for a struct.
        from thriftpy2.protocol.binary import TBinaryProtocolFactory  # noqa: PLC0415
        from thriftpy2.protocol.compact import TCompactProtocolFactory  # noqa: PLC0415

        factories = {"binary": TBinaryProtocolFactory, "compact": TCompactProtocolFactory}
        if protocol not in factories:
            raise BadSetting(f"thrift.protocol={protocol} must be binary or compact")
        self._factory = factories[protocol]()
        try:
            module = thriftpy2.load(file, module_name=_module_name(file))
        except (OSError, ThriftParserError) as error:
            raise BadSetting(f"{file} cannot be read as Thrift: {error}") from None
        structs = {kind.__name__: kind for kind in module.__thrift_meta__["structs"]}
        if struct is None and len(structs) == 1:
            struct = next(iter(structs))
        if struct not in structs:
            raise BadSetting(f"{file} has no struct {struct}, but {', '.join(structs)}")
        self._kind = structs[struct]


class ThriftSerializer(ThriftStruct):
    def serialize(self, value: Any) -> bytes | None:
        from thriftpy2.utils import serialize  # noqa: PLC0415

        if value is None:
            return None
        try:
            made = _made(self._kind, value) if isinstance(value, dict) else value
            return bytes(serialize(made, self._factory))
        except Exception as error:
            # thriftpy2 raises what a wrong value makes it stumble over.
            raise BadPayload(f"a value is no {self._kind.__name__}: {error}") from error

    __call__ = serialize


class ThriftDeserializer(ThriftStruct):
    """Returns dicts."""

    def deserialize(self, data: bytes | None) -> Any:
        if data is None:
            return None
        buffer = _Buffer(data)
        try:
            found = self._kind()
            self._factory.get_protocol(buffer).read_struct(found)
            buffer.check_end()
            return _plain(found)
        except Exception as error:
            # thriftpy2 raises exceptions of many types for malformed bytes.
            raise BadPayload(f"a value is no {self._kind.__name__}: {error}") from error

    __call__ = deserialize


class _Buffer:
    """The transport of a payload. That of thriftpy2 takes bytes that end too early for zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def read(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise EOFError("it ends too early")
        found = self._data[self._position : end]
        self._position = end
        return found

    def check_end(self) -> None:
        left = len(self._data) - self._position
        if left:
            raise ValueError(f"{left} bytes are left")


def _module_name(file: str) -> str:
    stem = os.path.basename(os.path.splitext(file)[0])
    return f"{stem if stem.isidentifier() else 'odradek'}_thrift"


_STRUCT = 12
_CONTAINERS: Mapping[int, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        15: lambda item, value: [_element(item, one) for one in value],
        14: lambda item, value: {_element(item, one) for one in value},
        13: lambda pair, value: {
            _element(pair[0], key): _element(pair[1], one) for key, one in value.items()
        },
    }
)


def _made(kind: Any, value: dict[str, Any]) -> Any:
    """Returns a struct made of a dict."""
    fields = {field[1]: field for field in kind.thrift_spec.values()}
    unknown = value.keys() - fields.keys()
    if unknown:
        raise ValueError(f"there is no field {sorted(unknown)[0]}")
    given = {}
    for name, part in value.items():
        field = fields[name]
        item = field[2] if field[0] == _STRUCT or field[0] in _CONTAINERS else None
        given[name] = _element((field[0], item), part)
    return kind(**given)


def _element(kind: Any, value: Any) -> Any:
    """Converts an element of a type, which is a number, or a pair of it and what it contains."""
    number, item = kind if isinstance(kind, tuple) else (kind, None)
    if value is None or item is None:
        return value
    if number == _STRUCT:
        return _made(item, value) if isinstance(value, dict) else value
    return _CONTAINERS[number](item, value) if number in _CONTAINERS else value


def _plain(value: Any) -> Any:
    if hasattr(value, "thrift_spec"):
        return {name: _plain(part) for name, part in vars(value).items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(part) for key, part in value.items()}
    return value
