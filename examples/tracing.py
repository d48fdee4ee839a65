"""Tracing: a trace id goes with every record in a header, from producers to consumers.

    python examples/tracing.py localhost:9092 orders

Neither the code that sends nor the code that reads mentions it: the interceptors add the header
`traceparent` (W3C Trace Context) and log what passes. In properties they are named
`interceptor.classes=tracing:TraceSends`, with this file's directory on PYTHONPATH.
"""

import asyncio
import logging
import secrets
import sys
from contextvars import ContextVar
from dataclasses import replace

from odradek.client import Consumer, ConsumerRecord, Producer, ProducerRecord, TopicPartition
from odradek.client.producer.deliveries import RecordMetadata

HEADER = "traceparent"
current_trace: ContextVar[str | None] = ContextVar("current_trace", default=None)
log = logging.getLogger("tracing")


def trace_of(headers: list[tuple[str, bytes | None]]) -> str | None:
    """Returns the trace id of a record."""
    for name, content in headers:
        if name == HEADER and content is not None:
            return content.decode().split("-")[1]
    return None


class TraceSends:
    """Gives each record the trace id of the code that sends it, or a new one."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        trace_id = current_trace.get() or secrets.token_hex(16)
        parent = f"00-{trace_id}-{secrets.token_hex(8)}-01".encode()
        return replace(record, headers=[*record.headers, (HEADER, parent)])

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None, record: ProducerRecord
    ) -> None:
        log.info("%s sent to %s: %s", trace_of(list(record.headers)), record.topic, error or "ok")


class TraceReads:
    """Logs which records a program gets."""

    def on_consume(
        self, records: dict[TopicPartition, list[ConsumerRecord]]
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        for partition, those in records.items():
            for record in those:
                log.info(
                    "%s read from %s at %d", trace_of(record.headers), partition, record.offset
                )
        return records


async def main(servers: str, topic: str) -> str | None:
    """Sends a record as part of a trace, reads it, and returns the trace id that arrived."""
    async with Producer(bootstrap_servers=servers, interceptors=[TraceSends()]) as producer:
        current_trace.set(secrets.token_hex(16))
        where = await producer.send_and_wait(topic, b"a book")
    async with Consumer(bootstrap_servers=servers, interceptors=[TraceReads()]) as consumer:
        partition = TopicPartition(topic, where.partition)
        consumer.assign([partition])
        consumer.seek(partition, where.offset)
        record = await anext(consumer)
        return trace_of(record.headers)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)  # which shows how to call it
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    asyncio.run(main(sys.argv[1], sys.argv[2]))
