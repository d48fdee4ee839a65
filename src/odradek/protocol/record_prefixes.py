"""The first bytes of the key and of the value of each record, for schema validation.

A payload that a serializer with a schema registry wrote begins with five bytes: a zero and the
schema's id. There are three ways to read them. A walk (`record_walkers`) goes from record to
record. Where neighbours have the same length, every small field of a record stands at a fixed
distance from that of the next record, so a field of all of them is one slice with a step (`_run`):
that takes a tenth of the time. Where only their lengths differ, all that is read of a record is
compared at once with what it must be (`_alike`), in half of the time. All check the fields that
they read in the same way, and stop after `count` records, so that a caller can yield in between.
"""

from functools import cache
from typing import Final, Literal, NamedTuple, cast

from odradek.protocol.record_walkers import Offsets, Walk
from odradek.protocol.uniform_records import offset_columns

PREFIX_BYTES: Final = 5

_PARAMETERS: Final = ("data", "count", "first", "position")
_BEFORE: Final = ("prefixes = []", "add = prefixes.append")
_RESULT: Final = "prefixes, position"
_VALUES: Final = Walk(
    "prefixes of values",
    through="value",
    parameters=_PARAMETERS,
    offsets=Offsets.CONSECUTIVE,
    before=_BEFORE,
    each=(
        "begin = position - (value_length >> 1)",
        # In zigzag, 10 is a length of five bytes and 1 is that of null, -1.
        "prefix = data[begin:begin + 5] if value_length > 9 else data[begin:position]",
        "add(None if value_length & 1 else prefix)",
    ),
    result=_RESULT,
    ends_with_batch=False,
)
_KEYS: Final = Walk(
    "prefixes of keys",
    through="key",
    parameters=_PARAMETERS,
    keeps=frozenset({"key"}),
    offsets=Offsets.CONSECUTIVE,
    before=_BEFORE,
    each=("add(key if key is None else key[:5])",),
    result=_RESULT,
    ends_with_batch=False,
)
_NULL: Final = 1
# Which bytes of a varint are not its last one.
_CONTINUES: Final = bytes(byte >> 7 for byte in range(256))
# A shorter run is not worth its slices. After one, so many records are walked, and twice as many
# after the next.
_MIN_RUN: Final = 16
_FIRST_WALK: Final = 16
# Offset deltas of at most two bytes.
_MAX_OFFSETS: Final = 1 << 13

Side = Literal["key", "value"]
# At most `PREFIX_BYTES` of each payload, None for null; and where the next record begins.
Prefixes = tuple[list[bytes | None], int]


def prefixes(side: Side, payload: bytes, count: int, first: int, position: int) -> Prefixes:
    """Reads `count` keys or values, of the records from index `first` on, which begin at
    `position`. Raises `MalformedRecords`."""
    walk = (_VALUES if side == "value" else _KEYS).function
    found: list[bytes | None] = []
    to_walk = _FIRST_WALK
    while len(found) < count:
        index, left = first + len(found), count - len(found)
        run = _quick(side, payload, left, index, position) if left >= _MIN_RUN else None
        if run is not None:
            found += [run.prefix] * run.records
            position += run.size
            continue
        walked, position = cast("Prefixes", walk(payload, min(to_walk, left), index, position))
        found += walked
        to_walk *= 2
    return found, position


def _quick(side: Side, data: bytes, count: int, first: int, position: int) -> "_Run | None":
    """Returns a run that begins with the record at `position`, or None if only a walk can read
    it."""
    layout = _layout(side, data, position)
    if layout is None:
        return None
    # A later record may have an offset delta of another width.
    last = 64 if layout.key_at - layout.offset_at == 1 else _MAX_OFFSETS
    count = min(count, last - first)
    if count < _MIN_RUN:
        return None
    run = _run(layout, data, count, first, position)
    if run is None or run.records < _MIN_RUN:
        run = _alike(layout, data, count, first, position)
    return run if run is not None and run.records >= _MIN_RUN else None


class _Run(NamedTuple):
    """Neighbours with one prefix, which take `size` bytes."""

    records: int
    size: int
    prefix: bytes | None


class _Layout(NamedTuple):
    """Where the fields of a record are, counted from its length field."""

    size: int
    time_at: int
    offset_at: int
    key_at: int
    value_at: int
    payload_at: int
    """Where the key or the value, whichever is read, begins."""
    payload_length: int
    """Its length, still zigzagged."""
    end: int
    """The end of what is compared: the length in front of the payload, and its prefix."""


def _run(layout: _Layout, data: bytes, count: int, first: int, position: int) -> _Run | None:
    """Returns neighbours of one length, or None if there is something wrong with them."""
    size = layout.size
    count = min(count, (len(data) - position) // size)
    if count < _MIN_RUN:
        return None
    stop = position + count * size
    for at in range(layout.time_at, layout.offset_at):
        is_last = at + 1 == layout.offset_at
        column = data[position + at : stop : size].translate(_CONTINUES)
        other = column.find(1 if is_last else 0)
        count = count if other < 0 else min(count, other)
    for place, at in enumerate(range(layout.offset_at, layout.key_at)):
        expected = offset_columns()[place]
        if data[position + at : stop : size] != expected[first : first + (stop - position) // size]:
            return None
    head = data[position : position + layout.end]
    for at in (*range(layout.time_at - 1), layout.key_at, *range(layout.value_at, layout.end)):
        column = data[position + at : stop : size]
        count = min(count, len(column) - len(column.lstrip(head[at : at + 1])))
    if layout.payload_length == _NULL:
        return _Run(count, count * size, None)
    length = min(layout.payload_length >> 1, PREFIX_BYTES)
    prefix = head[layout.payload_at : layout.payload_at + length]
    return _Run(count, count * size, prefix)


def _alike(layout: _Layout, data: bytes, count: int, first: int, position: int) -> _Run | None:
    """Returns neighbours that differ in their lengths, times and payloads alone. Their payloads
    have the same prefix, and as much stands behind each as behind the first one's."""
    head = data[position : position + layout.end]
    prefix = head[layout.payload_at :]
    is_other = (
        len(prefix) < PREFIX_BYTES
        or layout.payload_length == _NULL
        # A key between the offset and the value is not compared.
        or layout.value_at > layout.key_at + 1
        or layout.offset_at - layout.time_at > 1
    )
    if is_other:
        return None
    alike, records = _Alike(layout, head), 0
    length_bytes, time_at, offset_at = layout.time_at - 1, layout.time_at, layout.offset_at
    end, begin = layout.end, position
    offsets = _offsets(layout.key_at - layout.offset_at)[first : first + count]
    size = 0
    try:
        for offset in offsets:
            size, rest = alike[data[position : position + length_bytes]]
            if data[position + offset_at : position + end] != offset + rest:
                break
            if data[position + time_at] > 127:
                break
            position += size
            records += 1
    except KeyError:
        pass
    if position > len(data):
        # The last one ends beyond the batch.
        records, position = records - 1, position - size
    return _Run(records, position - begin, prefix)


class _Alike(dict[bytes, tuple[int, bytes]]):
    """What a record must be, by the bytes of its length: how long it is, and what stands from
    behind its offset to the end of the prefix. `KeyError`: a record of this length is another
    one."""

    def __init__(self, layout: _Layout, head: bytes) -> None:
        self._between = head[layout.key_at : layout.value_at]
        self._prefix = head[layout.payload_at :]
        self._width = layout.payload_at - layout.value_at
        # The bytes of a record that are not its payload.
        self._others = layout.size - (layout.payload_length >> 1)

    def __missing__(self, length: bytes) -> tuple[int, bytes]:
        size = _size(length)
        payload = None if size is None else _varint(size - self._others)
        if size is None or payload is None or len(payload) != self._width:
            raise KeyError(length)
        self[length] = found = size, self._between + payload + self._prefix
        return found


def _size(length: bytes) -> int | None:
    """Returns how many bytes a record takes whose length field this is, in its shortest form."""
    try:
        zigzagged, end = _small(length, 0)
    except (IndexError, _OtherForm):
        return None
    return None if zigzagged & 1 or end != len(length) else end + (zigzagged >> 1)


def _varint(number: int) -> bytes | None:
    """Returns a length of a payload with a whole prefix as a varint of one or two bytes."""
    if not PREFIX_BYTES <= number < _MAX_OFFSETS:
        return None
    bits = number << 1
    return bytes((bits,)) if bits < 128 else bytes((bits & 127 | 128, bits >> 7))


@cache
def _offsets(width: int) -> tuple[bytes, ...]:
    """Returns the offset deltas 0, 1, 2 and so on as varints of this width."""
    return tuple(bytes(pair) for pair in zip(*offset_columns()[:width], strict=True))


def _layout(side: Side, data: bytes, position: int) -> _Layout | None:
    try:
        length, begin = _small(data, position)
        _, offset_at = _small(data, begin + 1)
        _, key_at = _small(data, offset_at)
        key_length = data[key_at]
        key_end = key_at + 1 + (0 if key_length == _NULL else key_length >> 1)
        value_at, payload_length, payload_at = key_at, key_length, key_at + 1
        if side == "value":
            value_at = key_end
            payload_length, payload_at = _small(data, key_end)
    except (IndexError, _OtherForm):
        return None
    end = begin + (length >> 1)
    payload_bytes = 0 if payload_length == _NULL else payload_length >> 1
    is_wrong = (
        length & 1
        or any(found & 1 and found != _NULL for found in (key_length, payload_length))
        or payload_at + payload_bytes >= end
    )
    if is_wrong or key_length > 127:
        return None  # The walk says what is wrong, or reads the longer length of the key.
    return _Layout(
        end - position,
        begin + 1 - position,
        offset_at - position,
        key_at - position,
        value_at - position,
        payload_at - position,
        payload_length,
        payload_at - position + min(payload_bytes, PREFIX_BYTES),
    )


class _OtherForm(Exception):
    """A varint of more than two bytes."""


def _small(data: bytes, position: int) -> tuple[int, int]:
    """Returns the varint of one or two bytes at `position`, still zigzagged, and where it ends."""
    low = data[position]
    if low < 128:
        return low, position + 1
    high = data[position + 1]
    if high > 127:
        raise _OtherForm
    return low & 127 | high << 7, position + 2
