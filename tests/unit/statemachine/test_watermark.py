"""The watermark only rises, wakes exactly those it reached, and fails the rest at once."""

import asyncio

import pytest

from odradek.protocol.types import Offset
from odradek.statemachine.watermark import Waiter, Watermark


async def test_a_reached_offset_does_not_wait() -> None:
    mark = Watermark(Offset(5))
    wait = mark.wait_for(Offset(5))
    with pytest.raises(StopIteration):
        wait.send(None)


async def test_advancing_wakes_only_those_it_reached() -> None:
    mark = Watermark()
    near = asyncio.ensure_future(mark.wait_for(Offset(3)))
    far = asyncio.ensure_future(mark.wait_for(Offset(7)))
    await asyncio.sleep(0)
    mark.advance(Offset(5))
    await near
    assert not far.done()
    mark.advance(Offset(4))
    assert mark.value == 5
    mark.advance(Offset(7))
    await far


async def test_failure_reaches_everyone_who_waits_now_and_later() -> None:
    mark = Watermark()
    waiting = asyncio.ensure_future(mark.wait_for(Offset(1)))
    await asyncio.sleep(0)
    mark.fail(ConnectionError("no longer leader"))
    with pytest.raises(ConnectionError):
        await waiting
    with pytest.raises(ConnectionError):
        await mark.wait_for(Offset(1))


async def test_a_cancelled_wait_does_not_disturb_the_others() -> None:
    mark = Watermark()
    given_up = asyncio.ensure_future(mark.wait_for(Offset(1)))
    patient = asyncio.ensure_future(mark.wait_for(Offset(1)))
    await asyncio.sleep(0)
    given_up.cancel()
    mark.advance(Offset(1))
    await patient


async def test_one_waiter_over_many_watermarks_is_woken_once_and_forgotten_by_all() -> None:
    marks = [Watermark() for _ in range(1000)]
    waiter = Waiter()
    for mark in marks:
        waiter.watch(mark)
    asyncio.get_running_loop().call_soon(marks[500].advance, Offset(1))
    assert await waiter.wait(timeout_s=60)
    assert not any(mark.waiters for mark in marks)


async def test_a_waiter_gives_up_when_its_time_is_over() -> None:
    mark = Watermark()
    waiter = Waiter()
    waiter.watch(mark)
    assert not await waiter.wait(timeout_s=0)
    assert not mark.waiters


async def test_a_waiter_is_woken_by_failure() -> None:
    mark = Watermark()
    waiter = Waiter()
    waiter.watch(mark)
    asyncio.get_running_loop().call_soon(mark.fail, ConnectionError())
    assert await waiter.wait(timeout_s=60)
