"""Parses the events of a binary log. This module does no I/O.

A binary log is a sequence of files, and a file is a sequence of events. Each event begins with a
header of 19 bytes, with its type and the position of the next event. A transaction is a group of
events. It begins with `QUERY` and BEGIN, or with MariaDB's `GTID`. Each statement then has
`TABLE_MAP` events, which describe the tables, and events with rows. The group ends with `XID`, or
with `QUERY` and COMMIT. This is the same in MySQL and MariaDB; their GTIDs and their compression
differ.
"""

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

import cramjam

from odradek.connect.errors import DataError

_HEADER: Final = struct.Struct("<IBIIIH")
HEADER_SIZE: Final = _HEADER.size
_CHECKSUM_SIZE: Final = 4
ARTIFICIAL: Final = 0x20
"""The flag of events that the server sends to a reader without having them in a file."""


class EventType(IntEnum):
    QUERY = 2
    STOP = 3
    ROTATE = 4
    FORMAT_DESCRIPTION = 15
    XID = 16
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    ANNOTATE_ROWS = 160
    MARIADB_GTID = 162
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED_V1 = 166
    UPDATE_ROWS_COMPRESSED_V1 = 167
    DELETE_ROWS_COMPRESSED_V1 = 168
    WRITE_ROWS_COMPRESSED = 169
    UPDATE_ROWS_COMPRESSED = 170
    DELETE_ROWS_COMPRESSED = 171


INSERTS: Final = frozenset(
    {
        EventType.WRITE_ROWS_V1,
        EventType.WRITE_ROWS,
        EventType.WRITE_ROWS_COMPRESSED_V1,
        EventType.WRITE_ROWS_COMPRESSED,
    }
)
UPDATES: Final = frozenset(
    {
        EventType.UPDATE_ROWS_V1,
        EventType.UPDATE_ROWS,
        EventType.UPDATE_ROWS_COMPRESSED_V1,
        EventType.UPDATE_ROWS_COMPRESSED,
    }
)
DELETES: Final = frozenset(
    {
        EventType.DELETE_ROWS_V1,
        EventType.DELETE_ROWS,
        EventType.DELETE_ROWS_COMPRESSED_V1,
        EventType.DELETE_ROWS_COMPRESSED,
    }
)
ROWS: Final = INSERTS | UPDATES | DELETES
_WITHOUT_EXTRA_DATA: Final = frozenset(
    {
        EventType.WRITE_ROWS_V1,
        EventType.UPDATE_ROWS_V1,
        EventType.DELETE_ROWS_V1,
        EventType.WRITE_ROWS_COMPRESSED_V1,
        EventType.UPDATE_ROWS_COMPRESSED_V1,
        EventType.DELETE_ROWS_COMPRESSED_V1,
    }
)


class Event(NamedTuple):
    """An event of a binary log. It begins at `position` of its file and ends at `next_position`.
    `body` is what follows the header, without the checksum."""

    type: int
    timestamp_s: int
    server_id: int
    position: int
    next_position: int
    flags: int
    body: bytes

    @property
    def is_in_file(self) -> bool:
        return self.next_position > 0 and not self.flags & ARTIFICIAL


def parse_event(data: bytes, *, has_checksum: bool) -> Event:
    """Parses one event. Raises `DataError` if it is damaged."""
    timestamp_s, kind, server_id, size, next_position, flags = _HEADER.unpack_from(data)
    if size != len(data):
        raise DataError(
            f"an event of the binary log has {len(data)} bytes, but its header says {size}"
        )
    end = size
    if has_checksum:
        end -= _CHECKSUM_SIZE
        if zlib.crc32(data[:end]) != int.from_bytes(data[end:], "little"):
            raise DataError(
                f"the event before position {next_position} of the binary log is damaged: its"
                " checksum is wrong. Look at the file with mysqlbinlog --verify-binlog-checksum"
            )
    return Event(
        kind,
        timestamp_s,
        server_id,
        next_position - size,
        next_position,
        flags,
        data[HEADER_SIZE:end],
    )


def checksum_of_format(data: bytes) -> bool:
    """Returns whether the events after a `FORMAT_DESCRIPTION` have checksums. `data` is that event
    with its header. It always ends with the algorithm, a byte, and its own checksum."""
    return data[-1 - _CHECKSUM_SIZE] == 1


class Rotation(NamedTuple):
    file: str
    position: int


def parse_rotation(body: bytes) -> Rotation:
    return Rotation(body[8:].decode("utf-8", "replace"), int.from_bytes(body[:8], "little"))


class Query(NamedTuple):
    thread_id: int
    database: str
    sql: str


def parse_query(event: Event, charsets: "dict[int, str]") -> Query:
    """Parses a `QUERY`. `charsets` maps the number of a collation to Python's codec."""
    body = event.body
    thread_id = int.from_bytes(body[:4], "little")
    database_length = body[8]
    status_length = int.from_bytes(body[11:13], "little")
    status = body[13 : 13 + status_length]
    start = 13 + status_length
    database = body[start : start + database_length].decode("utf-8", "replace")
    text = body[start + database_length + 1 :]
    if event.type == EventType.QUERY_COMPRESSED:
        text = _inflated(text)
    codec = charsets.get(_client_charset(status), "utf-8")
    return Query(thread_id, database, text.decode(codec, "replace"))


def _client_charset(status: bytes) -> int:
    """Returns the number of the client's character set from the status variables of a `QUERY`, or
    0 if it is not among the first variables, whose sizes are known."""
    at = 0
    sizes = {0: 4, 1: 8, 3: 4}
    while at < len(status):
        code = status[at]
        at += 1
        if code == 4:
            return int.from_bytes(status[at : at + 2], "little")
        if code in sizes:
            at += sizes[code]
        elif code == 6:
            at += 1 + status[at]
        elif code == 2:
            at += 2 + status[at]
        else:
            return 0
    return 0


class MariaDbGtid(NamedTuple):
    """MariaDB's GTID, which begins a group of events: a transaction, or a single statement
    (`is_standalone`). `prepares` and `completes` are about XA transactions."""

    domain: int
    server_id: int
    sequence: int
    is_standalone: bool
    prepares: bool
    completes: bool
    xid: bytes

    @property
    def text(self) -> str:
        return f"{self.domain}-{self.server_id}-{self.sequence}"

    @property
    def xa_name(self) -> str:
        """The identifier of the XA transaction as in statements such as XA COMMIT."""
        kind, first = int.from_bytes(self.xid[:4], "little"), 6 + self.xid[4]
        return f"X'{self.xid[6:first].hex()}',X'{self.xid[first:].hex()}',{kind}"


_STANDALONE: Final = 1
_GROUP_COMMIT: Final = 2
_PREPARES_XA: Final = 64
_COMPLETES_XA: Final = 128


def parse_mariadb_gtid(event: Event) -> MariaDbGtid:
    body = event.body
    sequence = int.from_bytes(body[:8], "little")
    domain = int.from_bytes(body[8:12], "little")
    flags = body[12]
    at = 13 + (8 if flags & _GROUP_COMMIT else 0)
    xid = b""
    if flags & (_PREPARES_XA | _COMPLETES_XA):
        # Four bytes of format, the lengths of the two parts, and the parts.
        xid = body[at : at + 6 + body[at + 4] + body[at + 5]]
    return MariaDbGtid(
        domain,
        event.server_id,
        sequence,
        bool(flags & _STANDALONE),
        bool(flags & _PREPARES_XA),
        bool(flags & _COMPLETES_XA),
        xid,
    )


class MySqlGtid(NamedTuple):
    source: str
    number: int

    @property
    def text(self) -> str:
        return f"{self.source}:{self.number}"


def parse_mysql_gtid(body: bytes) -> MySqlGtid:
    text = body[1:17].hex()
    source = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    return MySqlGtid(source, int.from_bytes(body[17:25], "little"))


class RowsHeader(NamedTuple):
    """The content of an event with rows. `column_count` is that of the table. `is_whole` says that
    every row has all columns. `rows` are the encoded rows."""

    table_id: int
    column_count: int
    is_whole: bool
    rows: bytes


def parse_rows(event: Event) -> RowsHeader:
    body = event.body
    table_id = int.from_bytes(body[:6], "little")
    at = 8
    if event.type not in _WITHOUT_EXTRA_DATA:
        at += int.from_bytes(body[8:10], "little")
    count, at = length_encoded(body, at)
    size = (count + 7) // 8
    images = 2 if event.type in UPDATES else 1
    everything = (1 << count) - 1
    is_whole = all(
        int.from_bytes(body[at + index * size : at + (index + 1) * size], "little") & everything
        == everything
        for index in range(images)
    )
    rows = body[at + images * size :]
    if event.type >= EventType.WRITE_ROWS_COMPRESSED_V1:
        rows = _inflated(rows)
    return RowsHeader(table_id, count, is_whole, rows)


def _inflated(data: bytes) -> bytes:
    """Decompresses a part of an event of MariaDB. The first byte has the algorithm, and the size of
    the length that follows it."""
    if data[0] & 0x70:
        raise DataError(f"the binary log has the unknown compression {data[0] >> 4 & 7}")
    return zlib.decompress(data[1 + (data[0] & 7) :])


def length_encoded(data: bytes, at: int) -> tuple[int, int]:
    """Returns a number of variable length at index `at`, and the index after it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}.get(first)
    if size is None:
        raise DataError("the binary log has a damaged length")
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


_PAYLOAD_END: Final = 0
_PAYLOAD_COMPRESSION: Final = 2
_ZSTD: Final = 0


def payload_events(event: Event) -> Iterator[Event]:
    """Returns the events inside a `TRANSACTION_PAYLOAD`, in which MySQL compresses a transaction.
    They have no checksums, and get the position of the event that contains them."""
    at, kind, body = 0, 0, event.body
    while True:
        field, at = length_encoded(body, at)
        if field == _PAYLOAD_END:
            break
        size, at = length_encoded(body, at)
        if field == _PAYLOAD_COMPRESSION:
            kind, _ = length_encoded(body, at)
        at += size
    data = body[at:]
    if kind == _ZSTD:
        data = bytes(cramjam.zstd.decompress(data))
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        inner = parse_event(data[at : at + size], has_checksum=False)
        yield inner._replace(position=event.position, next_position=event.next_position)
        at += size
