"""The header `traceparent` of W3C Trace Context: which trace something belongs to.

00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
version, trace id, id of the span that is the parent, flags (1: the trace is recorded)
"""

import re
from typing import Final, NamedTuple

HEADER: Final = "traceparent"
STATE_HEADER: Final = "tracestate"
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class TraceParent(NamedTuple):
    """Ids are lower-case hexadecimal digits, 32 and 16 of them."""

    trace_id: str
    span_id: str
    is_sampled: bool = True

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}"


def parse(text: str | bytes | None) -> TraceParent | None:
    """Returns what the header says, or None if it is not valid: then the trace begins anew, as the
    standard demands."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    found = _FORM.fullmatch(text or "")
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    # Later versions may have more behind it, version 0 may not; and ids of zeros are no ids.
    if (
        version == "ff"
        or (version == "00" and rest)
        or not (trace_id.strip("0") and span_id.strip("0"))
    ):
        return None
    return TraceParent(trace_id, span_id, bool(int(flags, 16) & 1))
