"""The records that clients exchange in tests: awkward on purpose, equal on both ends."""

import time
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]

# Close to now, so that no retention rule of a broker under test looks at them.
BASE_TIMESTAMP_MS = int(time.time() * 1000) - 60_000


class Row(NamedTuple):
    """A record as any client shows it."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = BASE_TIMESTAMP_MS


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

AWKWARD_ROWS: tuple[Row, ...] = (
    Row(None, b"no key"),
    Row(b"key", None, (), BASE_TIMESTAMP_MS + 1),
    Row(b"", b"", (), BASE_TIMESTAMP_MS + 2),
    Row(b"k", b"v", (("a", b"1"), ("a", b"2"), ("empty", b"")), BASE_TIMESTAMP_MS + 7),
    # Earlier than its neighbours: a negative timestamp delta in the batch.
    Row("ключ".encode(), "значение".encode(), (("имя", b"\xfe\xff"),), BASE_TIMESTAMP_MS - 5),
    Row(b"z", b"compressible " * 100, (), BASE_TIMESTAMP_MS + 8),
    Row(b"n", b"null header", (("null", None),), BASE_TIMESTAMP_MS + 9),
)


def numbered_rows(count: int, value_bytes: int = 10) -> list[Row]:
    return [
        Row(
            b"%d" % number,
            (b"%d " % number).ljust(value_bytes, b"."),
            (),
            BASE_TIMESTAMP_MS + number,
        )
        for number in range(count)
    ]
