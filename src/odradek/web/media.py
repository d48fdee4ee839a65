"""Content negotiation: which media type an answer has, by the `Accept` header of the request."""

from functools import lru_cache
from typing import Final

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
MEDIA_TYPE: Final = "odradek.media_type"
"""The key in an ASGI scope of the media type that was negotiated."""


@lru_cache(maxsize=1000)
def negotiated(accept: str, offered: tuple[str, ...]) -> str | None:
    """Returns the offered type that the client prefers, or None if it accepts none of them.

    The most specific range that includes a type gives the type its quality (RFC 9110, 12.5.1).
    Among types of equal quality, the one with the more specific range wins, and then the first of
    those offered.
    """
    if not accept.strip():
        return offered[0]
    ranges = [_range_of(entry) for entry in accept.split(",")]
    best: tuple[float, int] = (0.0, -1)
    chosen = None
    for media_type in offered:
        specificity, quality = max(
            (_specificity(range_, media_type), quality) for range_, quality in ranges
        )
        rank = (quality, specificity)
        if specificity >= 0 and quality > 0 and rank > best:
            best, chosen = rank, media_type
    return chosen


def _range_of(entry: str) -> tuple[str, float]:
    """Returns the media range of an entry of `Accept`, such as `text/*`, and its quality."""
    range_, *parameters = entry.split(";")
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
    return range_.strip().lower(), quality


def _specificity(range_: str, media_type: str) -> int:
    """Returns how specific a range is that includes a type, or -1 if it does not include it."""
    if range_ == media_type:
        return 2
    if range_ == f"{media_type.partition('/')[0]}/*":
        return 1
    return 0 if range_ == "*/*" else -1


def given_type(content_type: str) -> str:
    """Returns the media type of a `Content-Type` header, without its parameters. Without the header
    it is application/octet-stream (RFC 9110, 8.3), which the schema registry accepts, because old
    Go clients send no header. A web page of another site can send such a request too; `guards`
    refuses it by its `Origin` header."""
    return content_type.partition(";")[0].strip().lower() or "application/octet-stream"
