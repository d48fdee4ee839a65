"""Times as users write them."""

from odradek.console.asking import BadForm
from odradek.rest.v3.reading import time_ms as read_time_ms
from odradek.web.problems import Problem


def time_ms(text: str) -> int:
    """Reads a time as browsers and people write it; UTC if it names no zone."""
    try:
        return read_time_ms(text)
    except Problem:
        raise BadForm(
            "Time: as 2026-02-05 19:14:42 (UTC), with a zone, or milliseconds since 1970"
        ) from None
