"""Handshakes begin one in a turn of the event loop, whatever else happens in between."""

import asyncio
from functools import partial

import pytest

from odradek.broker.network.handshake_turns import HandshakeTurns


async def test_one_handshake_begins_in_a_turn() -> None:
    turns, begun = HandshakeTurns(), list[str]()

    def handshake(name: str, *, is_gone: bool = False) -> None:
        def begin() -> bool:
            if not is_gone:
                begun.append(name)
            return not is_gone

        turns.wait(begin)

    for name in "abc":
        handshake(name)
    handshake("gone", is_gone=True)
    handshake("d")
    assert begun == []
    for expected in ("a", "ab", "abc", "abcd"):
        await asyncio.sleep(0)
        assert "".join(begun) == expected
    # Those that come later wait again, and an idle listener does nothing.
    await asyncio.sleep(0)
    handshake("e")
    await asyncio.sleep(0)
    assert begun[-1] == "e"


async def test_one_that_fails_does_not_stop_the_others() -> None:
    turns, begun = HandshakeTurns(), list[int]()
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: reported.append(what))

    def fail() -> bool:
        raise ValueError

    turns.wait(fail)
    turns.wait(partial(_note, begun, 1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert begun == [1]
    assert len(reported) == 1


@pytest.mark.parametrize("count", [1, 1000])
async def test_nothing_is_left_over(count: int) -> None:
    turns, begun = HandshakeTurns(), list[int]()
    for number in range(count):
        turns.wait(partial(_note, begun, number))
    for _ in range(count + 1):
        await asyncio.sleep(0)
    assert begun == list(range(count))
    assert not turns._is_scheduled


def _note(begun: list[int], number: int) -> bool:
    begun.append(number)
    return True
