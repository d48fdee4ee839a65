"""Amounts as people type and read them: `10MB`, `1GiB`, `7d`, `1.5 TB`.

KB, MB, GB and TB count by thousands, KiB and its like by 1024, as everywhere else.
"""

import argparse
import re

_BYTES: dict[str, int] = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtp", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtp", start=1)},
}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")


def size_bytes(text: str) -> int:
    """`10MB` and its like; a bare number counts bytes."""
    match = _AMOUNT.fullmatch(text.removesuffix("/s"))
    if match is None or match[2].lower() not in _BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write it as in 10MB or 512KiB")
    return round(float(match[1]) * _BYTES[match[2].lower()])


def duration_s(text: str) -> float:
    """`7d` and its like; the unit is needed, because Kafka's settings count milliseconds."""
    match = _AMOUNT.fullmatch(text)
    if match is None or match[2].lower() not in _SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write it as in 7d, 12h or 30s")
    return float(match[1]) * _SECONDS[match[2].lower()]


def shown_bytes(amount: float) -> str:
    for prefix in ("", "k", "M", "G", "T"):
        if amount < 999.5:
            digits = 0 if not prefix or amount >= 99.5 else 1
            return f"{amount:.{digits}f} {prefix}B"
        amount /= 1000
    return f"{amount:.1f} PB"


def shown_seconds(amount_s: float) -> str:
    if amount_s == float("inf"):
        return "ever"
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if amount_s >= 2 * unit:
            return f"{amount_s / unit:.3g} {name}"
    return f"{amount_s:.3g} s"
