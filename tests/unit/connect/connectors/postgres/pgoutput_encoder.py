"""Messages of pgoutput as a server writes them, for tests of the decoder and of what uses it."""

from collections.abc import Callable
from struct import pack
from typing import Any

from odradek.connect.connectors.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Decoded,
    Delete,
    Insert,
    Message,
    Origin,
    Relation,
    Truncate,
    Type,
    Update,
    Values,
)

_EPOCH_US = 946_684_800_000_000


def encode(message: Decoded) -> bytes:
    return _ENCODERS[type(message)](message)


def _relation(message: Relation) -> bytes:
    columns = [
        bytes([column.is_key])
        + _text(column.name)
        + pack(">Ii", column.type_oid, column.type_modifier)
        for column in message.columns
    ]
    head = b"R" + pack(">I", message.oid) + _text(message.schema) + _text(message.table)
    return head + message.replica_identity.encode() + pack(">H", len(columns)) + b"".join(columns)


def _type(message: Type) -> bytes:
    return b"Y" + pack(">I", message.oid) + _text(message.schema) + _text(message.name)


def _begin(message: Begin) -> bytes:
    return b"B" + pack(">QqI", message.commit_lsn, message.commit_us - _EPOCH_US, message.xid)


def _commit(message: Commit) -> bytes:
    time = message.commit_us - _EPOCH_US
    return b"C" + pack(">BQQq", 0, message.commit_lsn, message.end_lsn, time)


def _origin(message: Origin) -> bytes:
    return b"O" + pack(">Q", message.commit_lsn) + _text(message.name)


def _truncate(message: Truncate) -> bytes:
    flags = message.cascades | message.restarts_identity << 1
    relations = message.relations
    return b"T" + pack(f">IB{len(relations)}I", len(relations), flags, *relations)


def _message(message: Message) -> bytes:
    head = b"M" + pack(">BQ", message.is_transactional, message.lsn) + _text(message.prefix)
    return head + pack(">I", len(message.content)) + message.content


def _change(message: Insert | Update | Delete) -> bytes:
    relation = pack(">I", message.relation)
    if isinstance(message, Insert):
        return b"I" + relation + b"N" + _values(message.new)
    old = b""
    if message.key is not None:
        old = b"K" + _values(message.key)
    elif message.old is not None:
        old = b"O" + _values(message.old)
    if isinstance(message, Delete):
        return b"D" + relation + old
    return b"U" + relation + old + b"N" + _values(message.new)


def _values(values: Values) -> bytes:
    parts = [pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            data = value.encode()
            parts.append(b"t" + pack(">I", len(data)) + data)
    return b"".join(parts)


def _text(text: str) -> bytes:
    return text.encode() + b"\0"


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Relation: _relation,
    Type: _type,
    Begin: _begin,
    Commit: _commit,
    Origin: _origin,
    Insert: _change,
    Update: _change,
    Delete: _change,
    Truncate: _truncate,
    Message: _message,
}
