"""The messages of PostgreSQL's logical decoding plug-in pgoutput, protocol version 1.

Sans I/O: `decode` makes an object of the bytes of one message. Values of columns come as text, as
the types of PostgreSQL write them. A value that is stored out of line (TOAST) and that an update
did not touch is not sent: it is `UNCHANGED`.
"""

from collections.abc import Callable
from enum import Enum
from struct import Struct, error
from typing import Final, NamedTuple

from odradek.connect.errors import DataError

_POSTGRES_EPOCH_US: Final = 946_684_800_000_000
_H: Final = Struct(">H")
_I: Final = Struct(">I")
_BEGIN: Final = Struct(">QqI")
_COMMIT: Final = Struct(">BQQq")
_COLUMN: Final = Struct(">Ii")
_TRUNCATE: Final = Struct(">IB")
_MESSAGE: Final = Struct(">BQ")
_Q: Final = Struct(">Q")


class Unchanged(Enum):
    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged.UNCHANGED

Value = str | Unchanged | None
Values = list[Value]
"""The columns of a row, in the order of the relation. In a key, the columns outside it are None."""


class RelationColumn(NamedTuple):
    """`is_key` says whether the column is a part of the replica identity."""

    name: str
    type_oid: int
    type_modifier: int
    is_key: bool


class Relation(NamedTuple):
    """A table as it is from now on. It comes before the first change of a table, and again when the
    table was altered. `replica_identity` is `d`, `n`, `f` or `i`."""

    oid: int
    schema: str
    table: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]


class Type(NamedTuple):
    """A type that is not built in."""

    oid: int
    schema: str
    name: str


class Begin(NamedTuple):
    """`commit_lsn` is where the record of the commit begins, `commit_us` its time since 1970."""

    commit_lsn: int
    commit_us: int
    xid: int


class Commit(NamedTuple):
    """`end_lsn` is where the record of the commit ends."""

    commit_lsn: int
    end_lsn: int
    commit_us: int


class Origin(NamedTuple):
    """The transaction was replicated to the server from elsewhere."""

    commit_lsn: int
    name: str


class Insert(NamedTuple):
    relation: int
    new: Values


class Update(NamedTuple):
    """`key` is there if the replica identity is a key, and was changed; `old` if it is FULL."""

    relation: int
    key: Values | None
    old: Values | None
    new: Values


class Delete(NamedTuple):
    """Either `key` or `old` is there, by the replica identity."""

    relation: int
    key: Values | None
    old: Values | None


class Truncate(NamedTuple):
    relations: tuple[int, ...]
    cascades: bool
    restarts_identity: bool


class Message(NamedTuple):
    """What a program has written to the log with `pg_logical_emit_message`."""

    is_transactional: bool
    lsn: int
    prefix: str
    content: bytes


Decoded = Relation | Type | Begin | Commit | Origin | Insert | Update | Delete | Truncate | Message


def decode(data: bytes) -> Decoded:
    """Raises `DataError` if this is not a message of pgoutput."""
    try:
        return _DECODERS[data[0]](data)
    except KeyError:
        raise DataError(f"pgoutput has no message {data[:1]!r}") from None
    except (IndexError, error, ValueError) as reason:
        raise DataError(f"a message of pgoutput cannot be read: {reason}") from reason


def _text(data: bytes, at: int) -> tuple[str, int]:
    """Returns a text that ends with a zero byte, and where the next part begins."""
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _values(data: bytes, at: int) -> tuple[Values, int]:
    (count,) = _H.unpack_from(data, at)
    at += 2
    values: Values = []
    for _ in range(count):
        kind = data[at]
        if kind == 0x74:  # t: text
            start = at + 5
            at = start + int.from_bytes(data[at + 1 : start], "big")
            if at > len(data):
                raise ValueError("a value is cut off")
            values.append(data[start:at].decode())
        elif kind == 0x6E:  # n: null
            at += 1
            values.append(None)
        elif kind == 0x75:  # u: unchanged
            at += 1
            values.append(UNCHANGED)
        else:
            raise ValueError(f"there are no values of kind {bytes([kind])!r}")
    return values, at


def _relation(data: bytes) -> Relation:
    (oid,) = _I.unpack_from(data, 1)
    schema, at = _text(data, 5)
    table, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _H.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        is_key = bool(data[at] & 1)
        name, at = _text(data, at + 1)
        type_oid, modifier = _COLUMN.unpack_from(data, at)
        at += 8
        columns.append(RelationColumn(name, type_oid, modifier, is_key))
    # The tables of pg_catalog come with an empty name of their schema.
    return Relation(oid, schema or "pg_catalog", table, identity, tuple(columns))


def _type(data: bytes) -> Type:
    (oid,) = _I.unpack_from(data, 1)
    schema, at = _text(data, 5)
    name, _ = _text(data, at)
    return Type(oid, schema or "pg_catalog", name)


def _begin(data: bytes) -> Begin:
    lsn, time, xid = _BEGIN.unpack_from(data, 1)
    return Begin(lsn, time + _POSTGRES_EPOCH_US, xid)


def _commit(data: bytes) -> Commit:
    _, lsn, end, time = _COMMIT.unpack_from(data, 1)
    return Commit(lsn, end, time + _POSTGRES_EPOCH_US)


def _origin(data: bytes) -> Origin:
    (lsn,) = _Q.unpack_from(data, 1)
    name, _ = _text(data, 9)
    return Origin(lsn, name)


def _insert(data: bytes) -> Insert:
    (relation,) = _I.unpack_from(data, 1)
    _expect(data, 5, "N")
    return Insert(relation, _values(data, 6)[0])


def _update(data: bytes) -> Update:
    (relation,) = _I.unpack_from(data, 1)
    key = old = None
    at = 5
    kind = data[at]
    if kind == 0x4B:  # K
        key, at = _values(data, at + 1)
    elif kind == 0x4F:  # O
        old, at = _values(data, at + 1)
    _expect(data, at, "N")
    return Update(relation, key, old, _values(data, at + 1)[0])


def _delete(data: bytes) -> Delete:
    (relation,) = _I.unpack_from(data, 1)
    values, _ = _values(data, 6)
    if data[5] == 0x4B:
        return Delete(relation, values, None)
    _expect(data, 5, "O")
    return Delete(relation, None, values)


def _truncate(data: bytes) -> Truncate:
    count, options = _TRUNCATE.unpack_from(data, 1)
    relations = tuple(_I.unpack_from(data, 6 + 4 * index)[0] for index in range(count))
    return Truncate(relations, bool(options & 1), bool(options & 2))


def _message(data: bytes) -> Message:
    flags, lsn = _MESSAGE.unpack_from(data, 1)
    prefix, at = _text(data, 10)
    (length,) = _I.unpack_from(data, at)
    content = data[at + 4 : at + 4 + length]
    if len(content) != length:
        raise ValueError("the content is cut off")
    return Message(bool(flags & 1), lsn, prefix, content)


def _expect(data: bytes, at: int, letter: str) -> None:
    if data[at] != ord(letter):
        raise ValueError(f"{letter} is needed at byte {at}")


_DECODERS: Final[dict[int, Callable[[bytes], Decoded]]] = {
    ord("R"): _relation,
    ord("Y"): _type,
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _message,
}
