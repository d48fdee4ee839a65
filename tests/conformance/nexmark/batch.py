"""Queries whose rows nobody publishes, or for other data: what they give, computed at once."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Event = dict[str, Any]
Events = Mapping[str, Sequence[Event]]
_WINDOW_MS: Final = 10_000
_LAST: Final = 10
SIDE_KEYS: Final = 10


def _q6(events: Events) -> list[list[Any]]:
    """The average of what the last ten auctions of each seller were sold for, by their end."""
    sold: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for auction in events["auction"]:
        prices = [
            bid["price"]
            for bid in events["bid"]
            if bid["auction"] == auction["id"]
            and auction["date_time"] <= bid["date_time"] <= auction["expires"]
        ]
        if prices:
            sold[auction["seller"]].append((auction["expires"], max(prices)))
    rows: list[list[Any]] = []
    for seller, auctions in sold.items():
        last = [price for _, price in sorted(auctions)[-_LAST:]]
        rows.append([seller, sum(last) / len(last)])
    return rows


def _q11(events: Events) -> list[list[Any]]:
    """How many bids each bidder made in each session, which ends after ten seconds without one."""
    times: dict[int, list[int]] = defaultdict(list)
    for bid in events["bid"]:
        times[bid["bidder"]].append(bid["date_time"])
    rows: list[list[Any]] = []
    for bidder, found in times.items():
        found.sort()
        start_ms, end_ms, count = found[0], found[0], 0
        for time_ms in found:
            if time_ms - end_ms > _WINDOW_MS:
                rows.append([bidder, count, start_ms, end_ms])
                start_ms, count = time_ms, 0
            end_ms, count = time_ms, count + 1
        rows.append([bidder, count, start_ms, end_ms])
    return rows


def _q12(events: Events) -> list[list[Any]]:
    """How many bids of each bidder came within ten seconds, by the time at which they came."""
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for bid in events["bid"]:
        counts[bid["bidder"], bid["came_ms"] // _WINDOW_MS * _WINDOW_MS] += 1
    return [[bidder, count, start_ms] for (bidder, start_ms), count in counts.items()]


def _q13(events: Events) -> list[list[Any]]:
    """Each bid with the row of a small table that its auction's last digit names."""
    return [
        [bid["auction"], bid["bidder"], bid["price"], side_value(bid["auction"] % SIDE_KEYS)]
        for bid in events["bid"]
    ]


def side_value(key: int) -> str:
    return f"side-{key * key}"


BATCH: Final[dict[str, Callable[[Events], list[list[Any]]]]] = {
    "q6": _q6, "q11": _q11, "q12": _q12, "q13": _q13,
}  # fmt: skip
