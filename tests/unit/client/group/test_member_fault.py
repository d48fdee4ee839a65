"""The error that a membership hands to poll()."""

import asyncio

from odradek.client.group.member_fault import MemberFault
from odradek.protocol.errors import ErrorCode, error_for


async def test_an_error_is_taken_once_and_then_the_member_goes_on() -> None:
    fault = MemberFault("g", None)
    await fault.wait_until_taken()
    assert fault.take() is None
    error = error_for(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    fault.record(error)
    waits = asyncio.ensure_future(fault.wait_until_taken())
    await asyncio.sleep(0)
    assert not waits.done()
    assert not fault.is_final
    assert fault.take() is error
    assert fault.take() is None
    await waits


async def test_a_fenced_member_stays_fenced_and_says_why() -> None:
    fault = MemberFault("g", "i")
    fault.record(error_for(ErrorCode.FENCED_INSTANCE_ID, "a message of the broker"))
    assert fault.is_final
    first = fault.take()
    assert "group.instance.id=i" in str(first)
    assert fault.take() is first
    waits = asyncio.ensure_future(fault.wait_until_taken())
    await asyncio.sleep(0)
    assert not waits.done()
    waits.cancel()
