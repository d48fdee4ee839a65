"""The ids of schemas that are in headers of records, Confluent's newer framing.

It costs far more to read than the first bytes of a payload: each record has to be parsed. So a
topic's validation does it only if the name of the header is somewhere in the records. It must not
depend on the payload: readers look at the header first, so a record could have an id that is right
in its payload, for the broker, and another one in the header, for them.
"""

from collections.abc import Iterable

from odradek.protocol.record_parser import parse_records
from odradek.protocol.record_prefixes import Side
from odradek.protocol.record_scan import record_bounds
from odradek.protocol.types import Offset
from odradek.schemas.framing import header_content
from odradek.world.timeslice import Timeslice


async def header_ids(
    side: Side, records: bytes, count: int, indexes: Iterable[int]
) -> dict[int, bytes]:
    """Returns the contents of the header that names a schema, of those of the `count` records at
    `indexes` that have it. Yields to the event loop in between. Raises `MalformedRecords`."""
    found: dict[int, bytes] = {}
    bounds = record_bounds(records, count)
    timeslice = Timeslice.of_running_loop()
    for index in indexes:
        if timeslice.is_over():
            await timeslice.next_turn()
        one = records[bounds[index] : bounds[index + 1]]
        record = parse_records(one, 1, Offset(0), 0, None)[0]
        content = header_content(record.headers, side)
        if content is not None:
            found[index] = content
    return found
