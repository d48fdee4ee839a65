"""Batches that are much larger inside than outside, on topics where a log looks into them."""

import asyncio

import pytest

from odradek.protocol.compression import Codec
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import read_header
from odradek.protocol.types import LeaderEpoch
from odradek.storage.errors import AppendRejected
from odradek.storage.validation import MAX_LOCKED_DECOMPRESSED_BYTES, CannotAppendAtOnce
from tests.unit.storage.storage_world import make_batch, make_log, topic

LOOKING = [
    {"cleanup_policy": ["compact"]},
    {"compression_type": "gzip"},
    {"message_timestamp_before_max_ms": 10_000},
]


@pytest.mark.parametrize("settings", LOOKING)
async def test_a_batch_that_opens_to_more_than_sixteen_megabytes_is_taken(
    settings: dict[str, object],
) -> None:
    log = make_log(settings=topic(**settings))
    batch = make_batch([bytes(20 << 20)], codec=Codec.ZSTD)
    with pytest.raises(CannotAppendAtOnce):
        log.append(batch, leader_epoch=LeaderEpoch(0))
    validated = await log.validate_in_steps(batch)
    assert log.append(batch, leader_epoch=LeaderEpoch(0), validated=validated).base_offset == 0
    wanted = Codec.GZIP if "compression_type" in settings else Codec.ZSTD
    assert read_header(validated.records).codec == wanted


@pytest.mark.parametrize("settings", LOOKING)
async def test_there_is_an_end_to_what_is_opened(settings: dict[str, object]) -> None:
    log = make_log(settings=topic(**settings))
    batch = make_batch([bytes(MAX_LOCKED_DECOMPRESSED_BYTES + 1)], codec=Codec.ZSTD)
    with pytest.raises(AppendRejected) as caught:
        await log.validate_in_steps(batch)
    assert caught.value.code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


async def test_one_very_large_batch_is_open_at_a_time_and_others_do_not_wait_for_it() -> None:
    log = make_log(settings=topic(cleanup_policy=["compact"]))
    large = make_batch([bytes(20 << 20)], codec=Codec.ZSTD)
    small = make_batch([bytes(1 << 20)], codec=Codec.ZSTD)
    async with log.directory.decompression_lock:
        waiting = asyncio.ensure_future(log.validate_in_steps(large))
        await log.validate_in_steps(small)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_a_batch_of_more_than_a_hundred_thousand_records_is_taken() -> None:
    log = make_log(settings=topic(cleanup_policy=["compact"]))
    batch = make_batch([b""] * 100_001, codec=Codec.ZSTD)
    log.append(batch, leader_epoch=LeaderEpoch(0), validated=await log.validate_in_steps(batch))
    assert log.log_end_offset == 100_001
