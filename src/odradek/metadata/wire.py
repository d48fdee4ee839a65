"""The protocol between brokers and the metadata service of their machine, without I/O.

A frame is four bytes of length and a JSON list. Values of nodes are bytes, carried as text of the
same code points (latin-1), which is exact and needs no second encoding.

    broker -> service   [request, method, argument...]
    service -> broker   [request, null, result]
                        [request, error, path or "", message]
                        [0, "changed", [path...]]
                        [0, "expired"]          sent before the connection ends

The greeting carries `PROTOCOL`, so that a service of another version refuses it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.metadata.store import (
    BadVersion,
    Check,
    Create,
    Delete,
    InvalidPath,
    MetadataError,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationFailed,
    OutcomeUnknown,
    SessionExpired,
    Set,
    StoreUnavailable,
)

PROTOCOL: Final = 1
CHANGED: Final = "changed"
EXPIRED: Final = "expired"

_LENGTH_BYTES: Final = 4
_MAX_BYTES: Final = 256 * 1024 * 1024

_ERROR_TYPES: Final[dict[str, type[OperationFailed]]] = {
    kind.__name__: kind for kind in (NodeExists, NoNode, BadVersion, NotEmpty, InvalidPath)
}

_encoder = json.JSONEncoder(separators=(",", ":"), check_circular=False)


class NotOurProtocol(Exception):
    """The other side does not speak this protocol."""


def frame(message: list[Any]) -> bytes:
    content = _encoder.encode(message).encode()
    return len(content).to_bytes(_LENGTH_BYTES, "big") + content


class FrameReader:
    """Splits a stream of bytes into messages."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[list[Any]]:
        """Returns the messages that are complete now; raises `NotOurProtocol` if a frame cannot be
        a message."""
        buffer = self._buffer
        buffer += data
        messages = []
        position = 0
        while len(buffer) - position >= _LENGTH_BYTES:
            start = position + _LENGTH_BYTES
            length = int.from_bytes(buffer[position:start], "big")
            if length > _MAX_BYTES:
                raise NotOurProtocol(f"a message of {length} bytes")
            if len(buffer) - start < length:
                break
            position = start + length
            messages.append(_message(buffer[start:position]))
        del buffer[:position]
        return messages


def _message(content: bytearray) -> list[Any]:
    try:
        message = json.loads(content)
    except ValueError:
        raise NotOurProtocol("not JSON") from None
    if not isinstance(message, list) or len(message) < 2 or type(message[0]) is not int:
        raise NotOurProtocol("not a message")
    return message


# Nodes


def encode_node(node: Node | None) -> list[Any] | None:
    if node is None:
        return None
    return [node.value.decode("latin-1"), node.version, node.created, node.owner]


def decode_node(encoded: list[Any] | None) -> Node | None:
    return None if encoded is None else _node(*encoded)


def _node(value: str, version: int, created: int, owner: int) -> Node:
    return Node(value.encode("latin-1"), version, created, owner)


def encode_tree(tree: Mapping[str, Node]) -> dict[str, Any]:
    return {path: encode_node(node) for path, node in tree.items()}


def decode_tree(encoded: Mapping[str, Any]) -> dict[str, Node]:
    return {path: _node(*node) for path, node in encoded.items()}


# Operations


def encode_operation(operation: Operation) -> list[Any]:
    match operation:
        case Create(path, value, ephemeral):
            return ["create", path, value.decode("latin-1"), ephemeral]
        case Set(path, value, version):
            return ["set", path, value.decode("latin-1"), version]
        case Delete(path, version):
            return ["delete", path, version]
        case Check(path, version):
            return ["check", path, version]


_OPERATIONS: Final[dict[str, Callable[..., Operation]]] = {
    "create": lambda path, value, ephemeral: Create(path, value.encode("latin-1"), ephemeral),
    "set": lambda path, value, version: Set(path, value.encode("latin-1"), version),
    "delete": Delete,
    "check": Check,
}


def decode_operation(encoded: list[Any]) -> Operation:
    return _OPERATIONS[encoded[0]](*encoded[1:])


# Errors


def encode_error(request: int, error: MetadataError) -> list[Any]:
    path = error.path if isinstance(error, OperationFailed) else ""
    return [request, type(error).__name__, path, str(error)]


def decode_error(kind: str, path: str, message: str) -> MetadataError:
    error_type = _ERROR_TYPES.get(kind)
    if error_type is not None:
        return error_type(path, message.removeprefix(f"{path}: {error_type.reason}"))
    if kind == OutcomeUnknown.__name__:
        return OutcomeUnknown()
    if kind == SessionExpired.__name__:
        return SessionExpired()
    return StoreUnavailable(message)
