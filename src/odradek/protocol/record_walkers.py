"""Compiles loops over the records of a batch from one description of a record's layout.

Consumers, compaction, the key index and the checks on append each need other fields of each
record, and a call per field would halve their speed. So each of them declares a `Walk`: the last
field that it reads, what it keeps, and what it does with each record. From the walk and `_FIELDS`,
`_WalkSource` generates straight-line Python, as `decoder` does for messages; decision 22 has the
measurements. A walk is compiled at its first use, because most processes need one or two of them.

Strictness. All walks check the fields that they read in the same way. A walk ignores the fields
after the last one that it reads, except that it checks where the record ends:

- an integer fits its width (32 bits, 64 for the timestamp delta, which is at most `MAX_TIMESTAMP`);
- a record ends inside the batch, and nothing is read after its end;
- a key or value is null (length -1) or has a length that is not negative;
- offset deltas rise, or are consecutive where the walk says so;
- the last field ends exactly where the record ends, and the last record where the batch ends.

So a batch that one walk accepts is accepted by each walk that reads fewer fields and does not ask
more of the offsets, and both read the same values. Bytes are untrusted: every fault is a
`MalformedRecords`, and nothing is allocated that the bytes at hand could not fill.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final, NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.varint import read_zigzag

# Beyond this (a hundred million years) sums of timestamps would leave 64 bits.
MAX_TIMESTAMP: Final = 1 << 62
# Length, attributes, time, offset, key, value and header count, each of one byte.
MIN_RECORD_BYTES: Final = 7


class MalformedRecords(MalformedMessage):
    """The bytes are not a complete and consistent record batch."""


class Kind(Enum):
    """How a field is written."""

    LENGTH = "the varint in front of a record, which says where it ends"
    BYTE = "one byte"
    TIMESTAMP_DELTA = "a varint of 64 bits"
    OFFSET_DELTA = "a varint of 32 bits"
    BYTES = "a varint of 32 bits, -1 for null, and as many bytes"
    HEADERS = "a count, and for each header a name and a value"


class Field(NamedTuple):
    name: str
    kind: Kind
    # How many bytes of the varint are read in place; a longer one costs a call.
    inline_bytes: int = 1


_FIELDS: Final = (
    Field("length", Kind.LENGTH, inline_bytes=2),
    Field("attributes", Kind.BYTE),
    Field("timestamp_delta", Kind.TIMESTAMP_DELTA, inline_bytes=2),
    Field("offset_delta", Kind.OFFSET_DELTA, inline_bytes=2),
    Field("key", Kind.BYTES),
    Field("value", Kind.BYTES, inline_bytes=2),
    Field("headers", Kind.HEADERS),
)


class Offsets(Enum):
    """What a walk asks of the offset deltas."""

    NOT_READ = "nothing"
    # Compaction leaves gaps.
    RISING = "each is above the one before"
    # As a producer makes a batch.
    CONSECUTIVE = "they count from 0"


@dataclass(frozen=True)
class Walk:
    """A loop over records. The statements are Python source.

    In `each` these names are set for the record at hand: `timestamp_delta`, `offset_delta`,
    `key_length` and `value_length`, still zigzag-encoded; `key`, `value` and `headers` if `keeps`
    names them; `start`, its length included, and `end`; `position`, after the last field that was
    read. The parameters always have `data`, and `count` unless the walk is of a `single_record`;
    `position`, `size`, `first` (the index of the first record), `expected` and `previous` (offset
    deltas, doubled) may be among them.
    """

    name: str
    through: str
    each: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ("data", "count")
    keeps: frozenset[str] = frozenset()
    offsets: Offsets = Offsets.NOT_READ
    before: tuple[str, ...] = ()
    result: str = "None"
    ends_with_batch: bool = True
    single_record: bool = False
    # The headers of a record that has none, if `keeps` names them.
    no_headers: str = "[]"
    names: tuple[tuple[str, object], ...] = ()

    @cached_property
    def source(self) -> str:
        return _WalkSource(self).write()

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The compiled walk: a generator if a statement of `each` yields."""
        namespace: dict[str, object] = {
            "MalformedRecords": MalformedRecords,
            "parse_headers": parse_headers,
            "read_zigzag": read_zigzag,
            "skip_headers": skip_headers,
            **dict(self.names),
        }
        code = compile(self.source, f"<walk {self.name}>", "exec")
        exec(code, namespace)  # noqa: S102 - the source is made of our own declarations
        function: Callable[..., Any] = namespace["walk"]  # type: ignore[assignment]
        return function


class _WalkSource:
    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._lines: list[str] = []
        self._depth = 0
        # Bytes that no walk reads, passed over together with the next varint.
        self._skipped_bytes = 0

    def write(self) -> str:
        walk = self._walk
        with self._block(f"def walk({', '.join(walk.parameters)}):"):
            if "position" not in walk.parameters:
                self._line("position = 0")
            if "size" not in walk.parameters:
                self._line("size = len(data)")
            if walk.offsets is Offsets.RISING and "previous" not in walk.parameters:
                self._line("previous = -1")
            for statement in walk.before:
                self._line(statement)
            with self._block("try:"):
                self._loop()
            with self._block("except IndexError:"):
                self._refuse("a record ends beyond its batch")
            with self._block("except OverflowError as error:"):
                self._line('raise MalformedRecords(f"a record holds {error}") from None')
            if walk.ends_with_batch:
                with self._block("if position != size:"):
                    self._line(
                        'raise MalformedRecords(f"{size - position} bytes follow the last record")'
                    )
            self._line(f"return {walk.result}")
        return "\n".join(self._lines)

    def _loop(self) -> None:
        walk = self._walk
        if walk.single_record:
            self._record()
            return
        numbers = "_ in range(count)"
        if walk.offsets is Offsets.CONSECUTIVE:
            first = "2 * first" if "first" in walk.parameters else "0"
            numbers = f"expected in range({first}, {first} + 2 * count, 2)"
        with self._block(f"for {numbers}:"):
            self._record()

    def _record(self) -> None:
        walk = self._walk
        if any("start" in statement for statement in walk.each):
            self._line("start = position")
        for field in _FIELDS:
            self._field(field)
            if field.name == walk.through:
                break
        for statement in walk.each:
            self._line(statement)
        if walk.through not in {"length", "headers"} and not walk.single_record:
            self._line("position = end")

    def _field(self, field: Field) -> None:
        match field.kind:
            case Kind.LENGTH:
                self._length(field)
            case Kind.BYTE:
                self._skipped_bytes += 1
            case Kind.TIMESTAMP_DELTA:
                self._varint(field, field.name, width=64)
            case Kind.OFFSET_DELTA:
                self._offset_delta(field)
            case Kind.BYTES:
                self._bytes(field)
            case Kind.HEADERS:
                self._headers(field)

    def _length(self, field: Field) -> None:
        self._varint(field, field.name)
        if self._walk.through == field.name:
            # The end of the last record is compared with the batch's after the loop.
            with self._block(f"if {field.name} & 1:"):
                self._refuse("a record's length is wrong")
            self._line(f"position += {field.name} >> 1")
            return
        self._line(f"end = position + ({field.name} >> 1)")
        with self._block(f"if {field.name} & 1 or end > size:"):
            self._refuse("a record's length is wrong")

    def _offset_delta(self, field: Field) -> None:
        self._varint(field, field.name)
        if self._walk.offsets is Offsets.CONSECUTIVE:
            with self._block(f"if {field.name} != expected:"):
                self._refuse("the offsets of a batch are not consecutive")
            return
        if self._walk.offsets is Offsets.RISING:
            with self._block(f"if {field.name} & 1 or {field.name} <= previous:"):
                self._refuse("the offsets of a batch do not rise")
            self._line(f"previous = {field.name}")

    def _bytes(self, field: Field) -> None:
        is_kept = field.name in self._walk.keeps
        length = f"{field.name}_length"
        self._varint(field, length)
        with self._block(f"if {length} & 1:"):
            with self._block(f"if {length} != 1:"):
                self._refuse(f"a record's {field.name} has a negative length")
            if is_kept:
                self._line(f"{field.name} = None")
        with self._block("else:"):
            if is_kept:
                self._line("begin = position")
            self._line(f"position += {length} >> 1")
            if is_kept:
                self._line(f"{field.name} = data[begin:position]")
        if self._walk.through == field.name:
            with self._block("if position >= end:"):
                self._refuse(f"a record's {field.name} ends after the record")

    def _headers(self, field: Field) -> None:
        is_kept = field.name in self._walk.keeps
        with self._block("if data[position]:"):
            if is_kept:
                self._line("headers, position = parse_headers(data, position, end)")
            else:
                self._line("position = skip_headers(data, position, end)")
        with self._block("else:"):
            if is_kept:
                self._line(f"headers = {self._walk.no_headers}")
            self._line("position += 1")
        with self._block("if position != end:"):
            self._refuse("a record's length does not fit its fields")

    def _varint(self, field: Field, target: str, width: int = 32) -> None:
        """Reads a varint into `target`, still zigzagged; its first bytes are read in place."""
        skipped = self._skipped_bytes
        self._skipped_bytes = 0
        self._line(f"{target} = data[position{f' + {skipped}' if skipped else ''}]")
        self._line(f"position += {skipped + 1}")
        with self._block(f"if {target} > 127:"):
            self._longer(target, width, 1, field.inline_bytes)

    def _longer(self, target: str, width: int, read: int, inline_bytes: int) -> None:
        """The varint has more than the `read` bytes that are in `target` already."""
        if read < inline_bytes:
            self._line(f"{target} += (data[position] << {7 * read}) - {1 << 7 * read}")
            self._line("position += 1")
            with self._block(f"if {target} > {(1 << 7 * (read + 1)) - 1}:"):
                self._longer(target, width, read + 1, inline_bytes)
            return
        self._line(f"{target}, position = read_zigzag(data, position - {read}, {width})")
        if width == 64:
            with self._block(f"if {target} > {MAX_TIMESTAMP}:"):
                self._refuse("a record's timestamp is out of range")

    def _refuse(self, reason: str) -> None:
        self._line(f'raise MalformedRecords("{reason}") from None')

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def _block(self, opening: str) -> Iterator[None]:
        self._line(opening)
        self._depth += 1
        yield
        self._depth -= 1


def parse_headers(
    data: bytes, position: int, end: int
) -> tuple[list[tuple[str, bytes | None]], int]:
    """Returns the headers of a record that ends at `end`, and the position after them."""
    headers: list[tuple[str, bytes | None]] = []
    count, position = _header_count(data, position, end)
    for _ in range(count):
        length, position = read_zigzag(data, position)
        start, position = position, position + (length >> 1)
        if length & 1 or position > end:
            raise MalformedRecords("a record header's name has a wrong length")
        # A name that is not UTF-8 is shown as Java shows it. A reader that refused the record
        # could never read past it.
        name = data[start:position].decode(errors="replace")
        length, position = read_zigzag(data, position)
        if length == 1:
            headers.append((name, None))
            continue
        start, position = position, position + (length >> 1)
        if length & 1 or position > end:
            raise MalformedRecords("a record header's value has a wrong length")
        headers.append((name, data[start:position]))
    return headers, position


def skip_headers(data: bytes | bytearray | memoryview, position: int, end: int) -> int:
    """Checks headers as `parse_headers` does, and keeps none."""
    count, position = _header_count(data, position, end)
    for _ in range(count):
        length, position = read_zigzag(data, position)
        position += length >> 1
        if length & 1 or position > end:
            raise MalformedRecords("a record header's name has a wrong length")
        length, position = read_zigzag(data, position)
        position += length >> 1
        if (length & 1 and length != 1) or position > end:
            raise MalformedRecords("a record header's value has a wrong length")
    return position


def _header_count(data: bytes | bytearray | memoryview, position: int, end: int) -> tuple[int, int]:
    if position >= end:
        raise MalformedRecords("a record's key or value ends after the record")
    count, position = read_zigzag(data, position)
    if count & 1 or count >> 1 > end - position:
        raise MalformedRecords("a record declares more headers than it can hold")
    return count >> 1, position
