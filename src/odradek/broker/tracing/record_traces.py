"""Which traces the records of a Produce request belong to, by their headers `traceparent`.

It is asked about requests that were slow, after they were answered, in a worker thread. Records are
not decoded: the header is looked for in the bytes of each batch, where it stands as it was written.
"""

import re
from typing import Final

from odradek.protocol.apis import find_api
from odradek.protocol.batch_header import HEADER_SIZE, LENGTH_OVERHEAD, read_header
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.headers import decode_request_header
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.record_walkers import MalformedRecords
from odradek.protocol.records import decompressed_records
from odradek.protocol.types import Buffer
from odradek.telemetry.tracing.traceparent import TraceParent, parse

MAX_FRAME_BYTES: Final = 1024 * 1024
"""A larger request is not looked into."""
MAX_TRACES: Final = 32
_MAX_RECORD_BYTES: Final = 4 * 1024 * 1024

# A header in a record: the length of its name and the name, the length of its value and the value.
# Lengths are zigzag varints: 22 is 11 bytes, 110 is 55.
_IN_RECORD: Final = re.compile(
    rb"\x16traceparent\x6e([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})"
)


def traces_in(frame: Buffer) -> list[TraceParent]:
    """Returns the recorded traces in a Produce request, each once, in the order of its records. Of
    what cannot be read there are none: the request was answered long ago."""
    try:
        header, position = decode_request_header(frame)
        api = find_api(header.api_key)
        if api is None:
            return []
        request = ProduceRequest.decode(frame, header.api_version, position, allow_trailing=True)
        found: dict[str, TraceParent] = {}
        for topic in request.topic_data:
            for partition in topic.partition_data:
                _look_into(partition.records, found)
                if len(found) >= MAX_TRACES:
                    return list(found.values())
    except (MalformedMessage, MalformedRecords):
        return []
    return list(found.values())


def _look_into(records: Buffer | None, found: dict[str, TraceParent]) -> None:
    rest = memoryview(records or b"")
    while len(rest) >= HEADER_SIZE and len(found) < MAX_TRACES:
        header = read_header(rest)
        end = header.batch_length + LENGTH_OVERHEAD
        data = decompressed_records(header, rest[HEADER_SIZE:end], _MAX_RECORD_BYTES)
        for match in _IN_RECORD.finditer(data):
            trace = parse(match[1])
            if trace is not None and trace.is_sampled:
                found.setdefault(trace.trace_id, trace)
        rest = rest[end:]
