"""Sizes, durations and times on the command line: parsed from arguments, and shown to users."""

import argparse
from datetime import UTC, datetime, timedelta

from odradek.config.values import InvalidValue, parse_duration_ms, parse_size_bytes


def size_bytes(text: str) -> int:
    """Reads `10MB` and the like; a number alone counts bytes."""
    try:
        return parse_size_bytes(text)
    except InvalidValue as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def duration_s(text: str) -> float:
    """Reads `7d` and the like; the unit is required."""
    try:
        return parse_duration_ms(text) / 1000
    except InvalidValue as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def time_since_1970_ms(text: str) -> int:
    """Parses an ISO 8601 time, in UTC unless it names a zone. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


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
