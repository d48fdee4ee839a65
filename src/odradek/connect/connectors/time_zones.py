"""Time zones as settings name them: `UTC`, `Europe/Helsinki`, `+02:00`."""

import re
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from odradek.connect.errors import InvalidConfig

_SHIFT: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?")


def time_zone(text: str) -> tzinfo:
    """Raises `InvalidConfig`."""
    shift = _SHIFT.fullmatch(text)
    if shift is not None:
        minutes = int(shift[2] or 0) * 60 + int(shift[3] or 0)
        return timezone(timedelta(minutes=-minutes if shift[1] == "-" else minutes))
    try:
        return UTC if text in {"UTC", "Z"} else ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise InvalidConfig(
            f"{text} is not a time zone: use a name such as UTC or Europe/Helsinki"
        ) from None
