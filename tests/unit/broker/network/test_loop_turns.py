"""What the loop does between requests: taking turns, staying awake, sending replies together."""

from collections.abc import Callable
from functools import partial

import pytest

from odradek.broker.network.busy_poll import BusyPoll
from odradek.broker.network.reply_batching import ReplyBatching
from odradek.broker.network.round_robin import RoundRobin
from odradek.world.timeslice import SLICE_S, measured_by


class SteppedLoop:
    """A loop whose turns are taken by hand."""

    def __init__(self) -> None:
        self.ready: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.ready.append(callback)

    def turn(self) -> bool:
        """Runs what is ready; whether the loop would have slept."""
        ready, self.ready = self.ready, []
        for callback in ready:
            callback()
        return not self.ready


def turns_awake(loop: SteppedLoop, busy_poll: BusyPoll) -> int:
    """How many turns follow a request before the loop sleeps, when nothing more comes."""
    busy_poll.served()
    taken = 0
    while not loop.turn():
        taken += 1
        assert taken < 1000
    return taken


def test_a_request_is_followed_by_a_few_turns_and_then_by_sleep() -> None:
    loop = SteppedLoop()
    assert 10 < turns_awake(loop, BusyPoll(loop.call_soon)) < 100


def test_where_nothing_follows_it_is_tried_less_and_less() -> None:
    loop = SteppedLoop()
    busy_poll = BusyPoll(loop.call_soon)
    tried = [bool(turns_awake(loop, busy_poll)) for _ in range(1000)]
    assert sum(tried[:10]) >= 2
    assert 10 < sum(tried[500:]) + sum(tried[:500]) < 40


def test_where_the_next_request_follows_it_stays_awake() -> None:
    loop = SteppedLoop()
    busy_poll = BusyPoll(loop.call_soon)
    busy_poll.served()
    for _ in range(500):
        for _ in range(10):
            assert not loop.turn()
        busy_poll.served()


def test_requests_that_come_together_do_not_count_as_following_each_other() -> None:
    loop = SteppedLoop()
    busy_poll = BusyPoll(loop.call_soon)
    tried = 0
    for _ in range(200):
        busy_poll.served()
        tried += bool(turns_awake(loop, busy_poll))
    assert 5 < tried < 30


def test_it_stays_awake_under_a_load_that_leaves_no_turn_without_a_request() -> None:
    loop = SteppedLoop()
    busy_poll = BusyPoll(loop.call_soon)
    for _ in range(1000):
        busy_poll.served()
        assert not loop.turn()


def test_replies_of_one_connection_leave_at_once() -> None:
    loop = SteppedLoop()
    batching = ReplyBatching(loop.call_soon)
    sent: list[int] = []
    put_off = 0
    for number in range(1000):
        if batching.defer(partial(sent.append, number)):
            put_off += 1
        else:
            sent.append(number)
        loop.turn()
    assert sent == list(range(1000))
    assert put_off < 50


def test_replies_of_several_connections_leave_together_and_none_is_lost() -> None:
    loop = SteppedLoop()
    batching = ReplyBatching(loop.call_soon)
    sent: list[int] = []
    together = 0
    for turn in range(100):
        for connection in range(8):
            number = turn * 8 + connection
            if batching.defer(partial(sent.append, number)):
                together += 1
            else:
                sent.append(number)
        loop.turn()
    assert sorted(sent) == list(range(800))
    assert together > 700


class Work:
    """A stopwatch that only work moves: each piece takes a millisecond."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.done: list[str] = []

    def do(self, name: str) -> None:
        self.now_s += 0.001
        self.done.append(name)


def test_those_who_wait_share_five_milliseconds_of_a_turn_and_keep_their_order() -> None:
    loop, work = SteppedLoop(), Work()
    turns = RoundRobin(loop.call_soon)
    left = dict.fromkeys([f"connection {number}" for number in range(30)], 3)

    def take_turn(name: str) -> None:
        work.do(name)
        left[name] -= 1
        if left[name]:
            turns.add(partial(take_turn, name))

    with measured_by(lambda: work.now_s):
        for name in left:
            turns.add(partial(take_turn, name))
        while True:
            before_s = work.now_s
            is_over = loop.turn()
            assert work.now_s - before_s <= SLICE_S + 0.0015
            if is_over:
                break
    assert work.done == list(left) * 3


def test_a_turn_that_fails_does_not_hold_up_the_others() -> None:
    loop, work = SteppedLoop(), Work()
    turns = RoundRobin(loop.call_soon)

    def fail() -> None:
        raise RuntimeError("on purpose")

    turns.add(fail)
    turns.add(partial(work.do, "other"))
    with pytest.raises(RuntimeError):
        loop.turn()
    assert loop.turn()
    assert work.done == ["other"]
