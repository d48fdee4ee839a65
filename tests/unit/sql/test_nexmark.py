"""Nexmark's queries over events of our own. `python -m tests.conformance.nexmark` compares them
with published rows."""

import random

import pytest

from tests.conformance.nexmark.__main__ import rows_as_words, sorted_words
from tests.conformance.nexmark.batch import BATCH, SIDE_KEYS, Event, side_value
from tests.conformance.nexmark.queries import QUERIES
from tests.conformance.nexmark.runs import InMemory

_BEGIN_MS = 1_436_918_400_000
_CHANNELS = ("Apple", "Google", "channel-1", "channel-2")


@pytest.fixture(scope="module")
def events() -> dict[str, list[Event]]:
    chance = random.Random(11)
    people = [
        {
            "id": number, "name": f"person {number}", "email_address": "a@b", "credit_card": "1",
            "city": "here", "state": chance.choice(("or", "id", "ny")),
            "date_time": _BEGIN_MS + number * 900, "extra": "e",
        }
        for number in range(12)
    ]  # fmt: skip
    auctions = [
        {
            "id": 1_000 + number, "item_name": f"item {number}", "description": "d",
            "initial_bid": 1, "reserve": 2, "date_time": _BEGIN_MS + number * 700,
            "expires": _BEGIN_MS + number * 700 + chance.randrange(5_000, 20_000),
            "seller": chance.randrange(12), "category": 10 + number % 3, "extra": "x",
        }
        for number in range(40)
    ]  # fmt: skip
    bids = [
        {
            "auction": 1_000 + chance.randrange(45), "bidder": chance.randrange(8),
            "price": chance.choice((500, 20_000, 3_000_000)) + number,
            "channel": (channel := chance.choice(_CHANNELS)),
            "url": f"https://a/b/c/d?q=1&channel_id={channel[-1]}",
            "date_time": _BEGIN_MS + number * 250, "extra": "cc",
        }
        for number in range(150)
    ]  # fmt: skip
    side = [{"id": key, "text": side_value(key), "date_time": 0} for key in range(SIDE_KEYS)]
    found: dict[str, list[Event]] = {
        "person": people, "auction": auctions, "bid": bids, "side": side,
    }  # fmt: skip
    for rows in found.values():
        for number, row in enumerate(rows):
            row["came_ms"] = _BEGIN_MS + number * 1_500
    for row in side:
        del row["date_time"]
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_rows(name: str, events: dict[str, list[Event]]) -> None:
    query = QUERIES[name]
    found = rows_as_words(query, InMemory().rows(query, events, lambda _: True))
    if name in BATCH:
        assert found == sorted_words(BATCH[name](events))
    elif name != "q2":  # The benchmark's auctions are not among these.
        assert found
