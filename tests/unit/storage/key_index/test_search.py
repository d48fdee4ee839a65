"""Looking into batches for a key: at once where that is quick, beside the loop where it is not."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest

from odradek.protocol.compression import Codec
from odradek.protocol.record_keys import newest_of_key
from odradek.protocol.records import BatchBuilder, read_header
from odradek.protocol.types import Offset
from odradek.storage.errors import BatchTooLargeToDecompress
from odradek.storage.key_index.search import BatchReader

T = TypeVar("T")


class CountingWorkers:
    """Runs calls where they are made, and counts them."""

    def __init__(self) -> None:
        self.calls = 0

    async def run_blocking(self, call: Callable[[], T]) -> T:
        self.calls += 1
        return call()

    compute = run_blocking

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("codec", "records", "value_bytes", "calls"),
    [
        (Codec.NONE, 10, 10, 0),
        (Codec.ZSTD, 10, 10, 0),
        (Codec.ZSTD, 10, 100_000, 1),  # A few hundred bytes in the log.
        (Codec.NONE, 6_000, 1, 1),
    ],
)
async def test_what_takes_long_is_looked_into_elsewhere(
    codec: Codec, records: int, value_bytes: int, calls: int
) -> None:
    builder = BatchBuilder(codec)
    for number in range(records):
        builder.append(b"k%d" % (number % 5), b"%d" % number + bytes(value_bytes), [], 0)
    batch = builder.build(base_offset=100)
    header = read_header(batch)
    workers = CountingWorkers()
    look = partial(
        newest_of_key, header=header, key=b"k3", first_offset=Offset(0), end_offset=Offset(1 << 40)
    )
    found = await BatchReader(workers).look_into(memoryview(batch), header, look)
    assert found is not None
    assert (found.key, found.offset) == (b"k3", 100 + records - 2)
    assert workers.calls == calls


async def test_a_batch_that_nobody_can_read_holds_nothing() -> None:
    builder = BatchBuilder(Codec.NONE)
    builder.append(b"key", b"value", [], 0)
    batch = bytearray(builder.build())
    batch[61] = 0xFF  # The length of the first record.
    header = read_header(batch)
    look = partial(
        newest_of_key, header=header, key=b"key", first_offset=Offset(0), end_offset=Offset(1)
    )
    assert await BatchReader(CountingWorkers()).look_into(memoryview(batch), header, look) is None


async def test_a_bomb_is_refused() -> None:
    builder = BatchBuilder(Codec.ZSTD)
    builder.append(b"key", bytes(17 << 20), [], 0)
    batch = builder.build(base_offset=7)
    header = read_header(batch)
    look = partial(
        newest_of_key, header=header, key=b"key", first_offset=Offset(0), end_offset=Offset(9)
    )
    with pytest.raises(
        BatchTooLargeToDecompress, match="the batch at offset 7 holds more than the 16 MiB"
    ):
        await BatchReader(CountingWorkers()).look_into(memoryview(batch), header, look)
