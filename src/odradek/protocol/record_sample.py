"""Checks the first and the last record of a batch that is not compressed: for every append.

A broker does not read all records of a batch, which would cost more than all the rest of an append.
But a batch that cannot be read blocks its partition for all consumers, so the broker checks what is
cheap: that the bytes can hold as many records as the batch declares, that the first and the last
record are whole and have the first and the last offset, and that nothing follows.

The last record is looked for from the end: its length reaches exactly to the end of the batch, and
its offset is known. What is found there is a guess, because values may hold any bytes. Where it is
not a whole record, or nothing is found within the last bytes, the lengths are walked from the
second record on, and only that may refuse the batch. A walk is cheap where records are few or
large; for random values of a hundred bytes a guess is wrong about once in two hundred batches.
"""

from typing import Final

from odradek.protocol.record_parser import MIN_RECORD_BYTES, MalformedRecords, check_record
from odradek.protocol.record_walkers import Walk
from odradek.protocol.varint import encode_varint

# Up to this many records, or for records of this average size, walking costs less than searching.
_FEW: Final = 16
_LARGE_BYTES: Final = 1024
# How much of the end is searched for the last record, and how many places are tried.
_SEARCHED_BYTES: Final = 4096
_MAX_TRIES: Final = 4
_MAX_TIMESTAMP_BYTES: Final = 10


# Passes over records by their lengths alone.
_LENGTHS: Final = Walk(
    "lengths",
    through="length",
    parameters=("data", "count", "position"),
    result="position",
    ends_with_batch=False,
)


def check_sample(data: bytes | bytearray | memoryview, start: int, count: int) -> None:
    """`data` ends with the batch, whose records begin at `start`. Raises `MalformedRecords`."""
    size = len(data)
    if count < 1 or count * MIN_RECORD_BYTES > size - start:
        raise MalformedRecords(f"{size - start} bytes cannot hold {count} records")
    end = check_record(data, start, size, 0)
    if count > 1:
        is_searched = count > _FEW and size - start < count * _LARGE_BYTES
        if is_searched and _ends_well(data, end, count):
            return
        end = check_record(data, _LENGTHS.function(data, count - 2, end), size, count - 1)
    if end != size:
        raise MalformedRecords(f"{size - end} bytes follow the last record")


def _ends_well(data: bytes | bytearray | memoryview, second: int, count: int) -> bool:
    """Returns whether a whole last record was found from the end.

    False proves nothing: the bytes of a value may look like the beginning of the last record. Then
    the caller walks from the second record, which alone may refuse the batch.
    """
    found = _find_last(data, second, count)
    if found is None:
        return False
    size = len(data)
    try:
        return check_record(data, found, size, count - 1) == size
    except MalformedRecords:
        return False


def _find_last(data: bytes | bytearray | memoryview, second: int, count: int) -> int | None:
    """Returns where the last record seems to begin, searching from the end; None if nowhere."""
    size = len(data)
    window = max(second, size - _SEARCHED_BYTES)
    tail = bytes(data[window:])
    offset = encode_varint(count - 1)
    end = len(tail)
    for _ in range(_MAX_TRIES):
        # A record: its length, attributes, timestamp, offset and the rest.
        found = tail.rfind(offset, 0, end)
        if found < 0:
            break
        for attributes in range(found - 2, max(found - 2 - _MAX_TIMESTAMP_BYTES, 0), -1):
            length = encode_varint(len(tail) - attributes)
            start = attributes - len(length)
            if start >= 0 and tail[start:attributes] == length:
                return window + start
        end = found + len(offset) - 1
    return None
