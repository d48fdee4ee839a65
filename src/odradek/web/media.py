"""Content negotiation: which media type an answer has, by the `Accept` header of the request."""

from functools import lru_cache
from typing import Final

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
MEDIA_TYPE: Final = "odradek.media_type"
"""The key in an ASGI scope of the media type that was negotiated."""


@lru_cache(maxsize=1000)
def negotiated(accept: str, offered: tuple[str, ...]) -> str | None:
    """Returns the offered type that the client likes best, or None if it takes none of them.

    Among types that the client likes equally, the more specific range wins, and then the first of
    those offered.
    """
    if not accept.strip():
        return offered[0]
    best: tuple[float, int, int] | None = None
    chosen = None
    for entry in accept.split(","):
        range_, quality = _range_of(entry)
        if quality <= 0:
            continue
        for place, media_type in enumerate(offered):
            specificity = _specificity(range_, media_type)
            if specificity < 0:
                continue
            rank = (quality, specificity, -place)
            if best is None or rank > best:
                best, chosen = rank, media_type
    return chosen


def _range_of(entry: str) -> tuple[str, float]:
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
    """Returns how exactly a range names a type, or -1 if it does not."""
    if range_ == media_type:
        return 2
    if range_ == f"{media_type.partition('/')[0]}/*":
        return 1
    return 0 if range_ == "*/*" else -1


def given_type(content_type: str) -> str:
    """Returns the media type of a `Content-Type` header, without its parameters. A body without the
    header counts as bytes (RFC 9110, 8.3), which the registry takes: old clients of Go send it. The
    page of another site could send such a body too, but not without its `Origin`."""
    return content_type.partition(";")[0].strip().lower() or "application/octet-stream"
