r"""Recognises a peer that speaks another protocol than Kafka's, by the first bytes that it sends.

The usual mistakes are the port of a web server and that of a TLS listener. Two things make such a
peer answer at once, and its answer recognisable:

1. The first request has a correlation id whose bytes are `\r\n\r\n`. To a broker it is a number as
   any other. A server of a protocol with lines, which would wait for the end of the line, sees the
   end of a request, and answers that it is a bad one.
2. The first response may only be so large. It is a broker's list of API versions, of about 1 KB.
   The first four letters of any text, taken for the size of a frame, are more than 512 MiB, and so
   is a TLS record.
"""

from typing import Final

FIRST_CORRELATION_ID: Final = int.from_bytes(b"\r\n\r\n", "big")
MAX_FIRST_RESPONSE_BYTES: Final = 1 << 24
# How many bytes of the first answer are kept to recognise it.
RECOGNISED_BYTES: Final = 40

_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")


def what_it_speaks(first: bytes) -> str:
    """Returns what a peer is that has answered the first request with these bytes."""
    if first.startswith((b"HTTP/", b"<")):
        return "speaks HTTP, not the Kafka protocol: brokers listen at another port"
    if first.startswith(_TLS_RECORDS):
        return "speaks TLS: set security.protocol=SSL, or SASL_SSL if it asks for a log-in"
    return f"does not speak the Kafka protocol: it answers {first[:RECOGNISED_BYTES]!r}"
