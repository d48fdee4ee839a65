"""Batches that no consumer can read: refused by every log, and stepped over by compaction where an
older broker has taken them."""

import logging
from collections.abc import Callable

import pytest

from odradek.protocol.compression import Codec
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import HEADER_SIZE, assemble, read_header
from odradek.protocol.types import LeaderEpoch
from odradek.storage.errors import AppendRejected
from odradek.storage.log import Log
from tests.unit.storage.compaction.test_compaction import make_log, put, settle
from tests.unit.storage.storage_world import make_batch, make_world, topic
from tests.unit.storage.storage_world import make_log as make_plain_log


def with_wrong_key() -> bytes:
    """The only record's key says that it ends behind the record."""
    batch = make_batch([b"value"], key=b"k1")
    body = bytearray(batch[HEADER_SIZE:])
    body[4] = 126
    return assemble(read_header(batch), bytes(body))


def with_wrong_count(codec: Codec = Codec.NONE) -> bytes:
    batch = make_batch(codec=codec)
    header = read_header(batch)._replace(record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    return assemble(header, batch[HEADER_SIZE:])


def garbage() -> bytes:
    header = read_header(make_batch([b"1", b"2", b"3"]))
    return assemble(header, bytes(range(7, 57)))


@pytest.mark.parametrize("make", [with_wrong_key, with_wrong_count, garbage])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_batch_that_cannot_be_read_is_refused(make: Callable[[], bytes], policy: str) -> None:
    log = make_plain_log(settings=topic(cleanup_policy=[policy]))
    with pytest.raises(AppendRejected) as caught:
        log.append(make(), leader_epoch=LeaderEpoch(0))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 0


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
async def test_a_compressed_batch_that_declares_more_records_than_bytes_is_opened(
    codec: Codec,
) -> None:
    log = make_plain_log()
    with pytest.raises(AppendRejected) as caught:
        await log.validate_in_steps(with_wrong_count(codec))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    await append_when_ready(log, make_batch([b""] * 3000, key=None, codec=codec))
    assert log.log_end_offset == 3000


async def append_when_ready(log: Log, batch: bytes) -> None:
    log.append(batch, leader_epoch=LeaderEpoch(0), validated=await log.validate_in_steps(batch))


async def test_compaction_keeps_what_it_cannot_read_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager, log = await make_log(make_world())
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.append(with_wrong_key(), leader_epoch=LeaderEpoch(0), by_coordinator=True)
    put(log, (b"a", b"2"))
    put(log, (b"c", b"1"))
    await settle(log)
    with caplog.at_level(logging.WARNING):
        assert await manager.cleaner.clean_one()
    assert not manager.cleaner.uncleanable
    assert "kept as they are" in caplog.text
    kept = [
        header.base_offset
        for segment in log.segments
        if segment.size
        for _, header in segment.headers(0)
    ]
    assert 2 in kept
    # A second pass meets it in the part that is compacted.
    put(log, (b"a", b"3"))
    await settle(log)
    assert await manager.cleaner.clean_one()
    assert not manager.cleaner.uncleanable
