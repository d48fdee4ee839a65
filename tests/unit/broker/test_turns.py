"""What the loop does between requests: staying awake, and sending replies together."""

from collections.abc import Callable
from functools import partial

from odradek.broker.attention import Attention
from odradek.broker.departures import Departures


class Turns:
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


def turns_awake(loop: Turns, attention: Attention) -> int:
    """How many turns follow a request before the loop sleeps, when nothing more comes."""
    attention.served()
    taken = 0
    while not loop.turn():
        taken += 1
        assert taken < 1000
    return taken


def test_a_request_is_followed_by_a_few_turns_and_then_by_sleep() -> None:
    loop = Turns()
    assert 10 < turns_awake(loop, Attention(loop.call_soon)) < 100


def test_where_nothing_follows_it_is_tried_less_and_less() -> None:
    loop = Turns()
    attention = Attention(loop.call_soon)
    tried = [bool(turns_awake(loop, attention)) for _ in range(1000)]
    assert sum(tried[:10]) >= 2
    assert 10 < sum(tried[500:]) + sum(tried[:500]) < 40


def test_where_the_next_request_follows_it_stays_awake() -> None:
    loop = Turns()
    attention = Attention(loop.call_soon)
    attention.served()
    for _ in range(500):
        for _ in range(10):
            assert not loop.turn()
        attention.served()


def test_requests_that_come_together_do_not_count_as_following_each_other() -> None:
    loop = Turns()
    attention = Attention(loop.call_soon)
    tried = 0
    for _ in range(200):
        attention.served()
        tried += bool(turns_awake(loop, attention))
    assert 5 < tried < 30


def test_it_stays_awake_under_a_load_that_leaves_no_turn_without_a_request() -> None:
    loop = Turns()
    attention = Attention(loop.call_soon)
    for _ in range(1000):
        attention.served()
        assert not loop.turn()


def test_replies_of_one_connection_leave_at_once() -> None:
    loop = Turns()
    departures = Departures(loop.call_soon)
    sent: list[int] = []
    put_off = 0
    for number in range(1000):
        if departures.put_off(partial(sent.append, number)):
            put_off += 1
        else:
            sent.append(number)
        loop.turn()
    assert sent == list(range(1000))
    assert put_off < 50


def test_replies_of_several_connections_leave_together_and_none_is_lost() -> None:
    loop = Turns()
    departures = Departures(loop.call_soon)
    sent: list[int] = []
    together = 0
    for turn in range(100):
        for connection in range(8):
            number = turn * 8 + connection
            if departures.put_off(partial(sent.append, number)):
                together += 1
            else:
                sent.append(number)
        loop.turn()
    assert sorted(sent) == list(range(800))
    assert together > 700
