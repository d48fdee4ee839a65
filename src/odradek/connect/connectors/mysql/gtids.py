"""The numbers of transactions, of which a position holds all that were read.

MySQL numbers the transactions of each server: `UUID:1-5:7`. MariaDB numbers those of a domain, and
a position is the last one of each domain: `0-1-42,1-1-7`.
"""

from collections.abc import Iterable
from typing import Final

from odradek.connect.errors import DataError

_Interval = tuple[int, int]
_WRONG: Final = "the offset has numbers of transactions that cannot be read: "


def with_mariadb_gtid(known: str, gtid: str) -> str:
    """Returns the position with one more transaction."""
    domain = gtid.partition("-")[0]
    others = [part for part in known.split(",") if part and part.partition("-")[0] != domain]
    return ",".join(sorted([*others, gtid], key=_domain))


def _domain(gtid: str) -> int:
    try:
        return int(gtid.partition("-")[0])
    except ValueError:
        raise DataError(f"{_WRONG}{gtid[:80]}") from None


def with_mysql_gtid(known: str, source: str, number: int) -> str:
    """Returns the set with one more transaction."""
    sets = _parsed(known)
    sets[source] = _merged([*sets.get(source, ()), (number, number)])
    return _written(sets)


def gtid_set_bytes(text: str) -> bytes:
    """Returns a set of MySQL in the form in which a replica sends it."""
    sets = _parsed(text)
    data = len(sets).to_bytes(8, "little")
    for source, intervals in sorted(sets.items()):
        data += bytes.fromhex(source.replace("-", "")) + len(intervals).to_bytes(8, "little")
        for first, last in intervals:
            data += first.to_bytes(8, "little") + (last + 1).to_bytes(8, "little")
    return data


def _parsed(text: str) -> dict[str, list[_Interval]]:
    sets: dict[str, list[_Interval]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        source, *intervals = part.split(":")
        try:
            found = [_interval(interval) for interval in intervals]
            bytes.fromhex(source.replace("-", ""))
        except ValueError:
            raise DataError(f"{_WRONG}{part[:80]}") from None
        sets[source] = _merged([*sets.get(source, ()), *found])
    return sets


def _interval(text: str) -> _Interval:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _merged(intervals: Iterable[_Interval]) -> list[_Interval]:
    merged: list[_Interval] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _written(sets: dict[str, list[_Interval]]) -> str:
    return ",".join(
        ":".join([source, *(_text(interval) for interval in intervals)])
        for source, intervals in sorted(sets.items())
    )


def _text(interval: _Interval) -> str:
    first, last = interval
    return str(first) if first == last else f"{first}-{last}"
