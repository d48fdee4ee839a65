"""Options that other Kafka clients have under another name, and what to write here instead.

A program or a dict of settings that was written for aiokafka, kafka-python or confluent-kafka
(librdkafka) is answered with the line to type, where the nearest spelling would mislead.
"""

from typing import Final

_INSTEAD: Final = {
    "auto.commit.enable": "write enable.auto.commit",
    "batch.num.messages": "batches are limited by bytes: write batch.size",
    "compression.codec": "write compression.type",
    "fetch.message.max.bytes": "write max.partition.fetch.bytes",
    "fetch.wait.max.ms": "write fetch.max.wait.ms",
    "max.batch.size": "write batch.size",
    "max.in.flight": "write max.in.flight.requests.per.connection",
    "max.in.flight.requests": "write max.in.flight.requests.per.connection",
    "message.max.bytes": "write max.request.size",
    "message.send.max.retries": "write retries",
    "message.timeout.ms": "write delivery.timeout.ms",
    "metadata.broker.list": "write bootstrap.servers",
    "partitioner": "write partitioner.class",
    "queue.buffering.max.kbytes": "write buffer.memory, in bytes",
    "queue.buffering.max.messages": "the buffer is limited by bytes: write buffer.memory",
    "queue.buffering.max.ms": "write linger.ms",
    "rebalance.timeout.ms": "write max.poll.interval.ms",
    "request.required.acks": "write acks",
    "socket.timeout.ms": "write request.timeout.ms",
    "topic.metadata.refresh.interval.ms": "write metadata.max.age.ms",
    "topics": 'write Consumer("topic", group_id="...") or call subscribe()',
    # What is not needed, or is done by a call.
    "api.version": "leave it out: versions are negotiated with each broker",
    "api.version.request": "leave it out: versions are negotiated with each broker",
    "broker.version.fallback": "leave it out: versions are negotiated with each broker",
    "consumer.timeout.ms": "call poll(timeout_ms=...)",
    "dr.cb": "give send() the function: send(topic, value, on_delivery=function)",
    "enable.auto.offset.store": (
        "set enable.auto.commit=false and commit() the offsets that were handled"
    ),
    "enable.partition.eof": "compare position() with end_offsets()",
    "error.cb": "errors are raised by the calls; the rest is logged by logger odradek.client",
    "logger": "use logging.getLogger('odradek.client')",
    "loop": "leave it out: the running event loop is used",
    "on.delivery": "give send() the function: send(topic, value, on_delivery=function)",
    "statistics.interval.ms": "leave it out: there are no statistics callbacks",
    "stats.cb": "leave it out: there are no statistics callbacks",
}


def instead_of(name: str) -> str:
    """Returns the end of a sentence about an option of another client, or an empty string."""
    dotted = name.replace("_", ".")
    if dotted.startswith(("ssl.", "sasl.")):
        return "; this client speaks PLAINTEXT only so far, without TLS and SASL: leave it out"
    answer = _INSTEAD.get(dotted)
    return "" if answer is None else f"; {answer}"
