"""How values of settings and options are read from text and written as text: one way per kind.

`setting` declares which kind a setting has; the command line, the client and Spark's options read
their durations and sizes with the same functions. Each function raises `InvalidValue`, whose
message says what would be right.
"""

import re
from typing import Final

_AMOUNT: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")
_UNITS_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_UNITS_BYTES: Final[dict[str, int]] = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtp", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtp", start=1)},
}
# Java's Duration.parse takes a sign before each number and before the whole.
_ISO_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?"
    r"(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE,
)
_MAX_SHOWN: Final = 100


class InvalidValue(ValueError):
    """A text or a value that a setting does not accept; the message says what is accepted."""


def in_a_line(value: object) -> str:
    """Returns a value that came over the wire, cut and escaped so that it fits one line."""
    text = str(value)
    if len(text) > _MAX_SHOWN:
        text = f"{text[:_MAX_SHOWN]}…"
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def parse_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise InvalidValue("must be true or false")


def parse_integer(text: str) -> int:
    # int() alone would take "1_000" and digits of other scripts.
    if text.isascii() and "_" not in text:
        try:
            return int(text)
        except ValueError:
            pass
    raise InvalidValue("must be a whole number")


def parse_list(text: str) -> tuple[str, ...]:
    """Splits at commas; an empty text is an empty list."""
    return tuple(part.strip() for part in text.split(",")) if text else ()


def parse_duration_ms(text: str, *, default_unit: str | None = None) -> int:
    """Reads `500ms`, `90s`, `15m`, `12h`, `7d`, `2w`.

    A number alone is refused unless there is a `default_unit`: Kafka's settings count
    milliseconds, and other tools count seconds.
    """
    match = _AMOUNT.fullmatch(text)
    unit = (match[2].lower() or default_unit) if match is not None else None
    if match is None or unit not in _UNITS_MS:
        raise InvalidValue(f"{in_a_line(text)!r} is not a time; write it as in 7d, 12h or 30s")
    return round(float(match[1]) * _UNITS_MS[unit])


def parse_iso_duration_ms(text: str) -> int:
    """Reads an ISO 8601 duration of days and less: `P1DT2H30M`, `PT0.5S`."""
    match = _ISO_DURATION.fullmatch(text)
    if match is None or not (match[2] or match[3]) or match[3] in ("T", "t"):
        raise InvalidValue(f"{in_a_line(text)!r} is not like P1D, PT2H30M or P7DT12H")
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    whole_s = (int(days or 0) * 24 + int(hours or 0)) * 3600 + int(minutes or 0) * 60
    part_ms = int((fraction or "").ljust(3, "0")[:3] or 0)
    if seconds and seconds.startswith("-"):
        part_ms = -part_ms
    total_ms = (whole_s + int(seconds or 0)) * 1000 + part_ms
    return -total_ms if sign == "-" else total_ms


def parse_size_bytes(text: str) -> int:
    """Reads `10MB` and `512KiB`: KB, MB and so on count by 1000, KiB, MiB and so on by 1024.

    A number alone counts bytes, and a rate may end in `/s`.
    """
    match = _AMOUNT.fullmatch(text.removesuffix("/s"))
    if match is None or match[2].lower() not in _UNITS_BYTES:
        raise InvalidValue(f"{in_a_line(text)!r} is not a size; write it as in 10MB or 512KiB")
    return round(float(match[1]) * _UNITS_BYTES[match[2].lower()])


def format_value(value: object) -> str:
    """Writes a value as Kafka's tools show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # Java writes 1.0E10 where Python writes 1e+10; tools compare the text.
        return repr(value).replace("e+", "E").replace("e", "E")
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)
