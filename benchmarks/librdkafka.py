"""The load client of the benchmarks: librdkafka called without Python code for each record.

The library inside confluent-kafka's wheel is called through ctypes, ten thousand records a call, so
that the client is C and the broker is what is measured. Consumed records are counted by librdkafka
itself: its consume callback must be a C function, so one of its own functions that does nothing is
used.

Invariant: a load counts only when the broker's end offsets say that every record is there.
"""

import ctypes
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import confluent_kafka

_PRODUCER: Final = 0
_CONSUMER: Final = 1
_OFFSET_BEGINNING: Final = -2
_OFFSET_END: Final = -1
_F_COPY: Final = 2
_F_PARTITION: Final = 8
_CHUNK_RECORDS: Final = 10_000
_TIMEOUT_MS: Final = 60_000


class Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("err", ctypes.c_int),
        ("rkt", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )


@cache
def library() -> ctypes.CDLL:
    """librdkafka with the signatures that are used here."""
    package = Path(confluent_kafka.__file__).parent
    found = sorted(package.parent.glob("confluent_kafka.libs/librdkafka*"))
    found += sorted(package.glob(".dylibs/librdkafka*"))
    native = ctypes.CDLL(str(found[0]))
    pointer, integer, size, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p
    signatures: dict[str, tuple[object, list[object]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (integer, [pointer, text, text, text, size]),
        "rd_kafka_new": (pointer, [integer, pointer, text, size]),
        "rd_kafka_topic_new": (pointer, [pointer, text, pointer]),
        "rd_kafka_topic_destroy": (None, [pointer]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_flush": (integer, [pointer, integer]),
        "rd_kafka_poll": (integer, [pointer, integer]),
        "rd_kafka_produce": (
            integer,
            [pointer, ctypes.c_int32, integer, pointer, size, pointer, size, pointer],
        ),
        "rd_kafka_produce_batch": (
            integer,
            [pointer, ctypes.c_int32, integer, pointer, integer],
        ),
        "rd_kafka_queue_new": (pointer, [pointer]),
        "rd_kafka_queue_destroy": (None, [pointer]),
        "rd_kafka_consume_start_queue": (
            integer,
            [pointer, ctypes.c_int32, ctypes.c_int64, pointer],
        ),
        "rd_kafka_consume_stop": (integer, [pointer, ctypes.c_int32]),
        "rd_kafka_consume_callback_queue": (integer, [pointer, integer, pointer, pointer]),
        "rd_kafka_consume_queue": (ctypes.POINTER(Message), [pointer, integer]),
        "rd_kafka_message_destroy": (None, [ctypes.POINTER(Message)]),
        "rd_kafka_init_transactions": (pointer, [pointer, integer]),
        "rd_kafka_begin_transaction": (pointer, [pointer]),
        "rd_kafka_commit_transaction": (pointer, [pointer, integer]),
        "rd_kafka_abort_transaction": (pointer, [pointer, integer]),
        "rd_kafka_error_string": (text, [pointer]),
        "rd_kafka_query_watermark_offsets": (
            integer,
            [pointer, text, ctypes.c_int32, pointer, pointer, integer],
        ),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(native, name)
        function.restype = result
        function.argtypes = arguments
    return native


_security: dict[str, object] = {}


@contextmanager
def secured(settings: Mapping[str, object]) -> Iterator[None]:
    """Gives all clients that are made meanwhile these settings of TLS or SASL."""
    _security.update(settings)
    try:
        yield
    finally:
        _security.clear()


@contextmanager
def client(kind: int, settings: Mapping[str, object]) -> Iterator[int]:
    """A producer or consumer handle."""
    native = library()
    reason = ctypes.create_string_buffer(512)
    configuration = native.rd_kafka_conf_new()
    for name, value in (_security | dict(settings)).items():
        words = (name.encode(), str(value).encode())
        if native.rd_kafka_conf_set(configuration, *words, reason, 512) != 0:
            raise RuntimeError(reason.value.decode())
    handle = native.rd_kafka_new(kind, configuration, reason, 512)
    if not handle:
        raise RuntimeError(reason.value.decode())
    try:
        yield handle
    finally:
        native.rd_kafka_destroy(handle)


def records_in(handle: int, topic: str, partitions: int) -> int:
    """Returns the number of records of a topic by its end offsets."""
    native = library()
    total = 0
    for partition in range(partitions):
        low, high = ctypes.c_int64(), ctypes.c_int64()
        offsets = (ctypes.byref(low), ctypes.byref(high))
        deadline = time.monotonic() + _TIMEOUT_MS / 1000
        while error := native.rd_kafka_query_watermark_offsets(
            handle, topic.encode(), partition, *offsets, _TIMEOUT_MS
        ):
            if time.monotonic() > deadline:  # a new partition may have no leader for a moment
                raise RuntimeError(f"{topic}-{partition} does not tell its end: error {error}")
            time.sleep(0.01)
        total += high.value - low.value
    return total


def produce(
    bootstrap: str,
    topic: str,
    count: int,
    record_bytes: int,
    *,
    partitions: int,
    acks: str,
    values: Sequence[bytes] = (),
) -> float:
    """Sends ``count`` records as fast as the client can. Returns the seconds until all are
    acknowledged. With `values`, records have these values in turn, and not `record_bytes`."""
    native = library()
    values = values or [(b"0123456789" * (record_bytes // 10 + 1))[:record_bytes]]
    payloads = [ctypes.create_string_buffer(value, len(value)) for value in values]
    messages = (Message * _CHUNK_RECORDS)()
    for index, message in enumerate(messages):
        payload = payloads[index % len(payloads)]
        message.payload = ctypes.addressof(payload)
        message.len = len(payload)
        message.partition = index % partitions
    settings = {
        "bootstrap.servers": bootstrap,
        "acks": acks,
        "queue.buffering.max.messages": 1_000_000,
        "log_level": 3,
    }
    with client(_PRODUCER, settings) as handle:
        topic_handle = native.rd_kafka_topic_new(handle, topic.encode(), None)
        records_in(handle, topic, partitions)  # connects, so that the clock sees records only
        started = time.perf_counter()
        left = count
        while left:
            wanted = min(left, _CHUNK_RECORDS)
            left -= _enqueue(topic_handle, messages, wanted)
            native.rd_kafka_poll(handle, 0)
        if native.rd_kafka_flush(handle, _TIMEOUT_MS) != 0:
            raise RuntimeError("records were left unacknowledged")
        elapsed = time.perf_counter() - started
        stored = records_in(handle, topic, partitions)
        native.rd_kafka_topic_destroy(topic_handle)
    if stored != count:
        raise RuntimeError(f"{count} records were sent to {topic}, {stored} are there")
    return elapsed


def _succeed(error: int | None) -> None:
    if error:
        raise RuntimeError(library().rd_kafka_error_string(error).decode())


def produce_transactions(
    bootstrap: str, topic: str, count: int, records_each: int, *, aborted_every: int = 0
) -> float:
    """Makes one transaction after the other, with 100-byte records in one partition. Returns the
    seconds.

    Every ``aborted_every``-th is aborted after its records are in the log; 0 means none.
    """
    native = library()
    payload = ctypes.create_string_buffer(100)
    messages = (Message * records_each)()
    for message in messages:
        message.payload = ctypes.addressof(payload)
        message.len = 100
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": f"{topic}-writer",
        "linger.ms": 0,
        "queue.buffering.max.messages": 1_000_000,
        "log_level": 3,
    }
    with client(_PRODUCER, settings) as handle:
        topic_handle = native.rd_kafka_topic_new(handle, topic.encode(), None)
        _succeed(native.rd_kafka_init_transactions(handle, _TIMEOUT_MS))
        records_in(handle, topic, 1)
        started = time.perf_counter()
        for number in range(1, count + 1):
            _succeed(native.rd_kafka_begin_transaction(handle))
            _enqueue(topic_handle, messages, records_each)
            if aborted_every and number % aborted_every == 0:
                native.rd_kafka_flush(handle, _TIMEOUT_MS)
                _succeed(native.rd_kafka_abort_transaction(handle, _TIMEOUT_MS))
            else:
                _succeed(native.rd_kafka_commit_transaction(handle, _TIMEOUT_MS))
        elapsed = time.perf_counter() - started
        stored = _settled_end(handle, topic, count * (records_each + 1))
        native.rd_kafka_topic_destroy(topic_handle)
    if stored != count * (records_each + 1):
        raise RuntimeError(f"{topic} ends at {stored} after {count} transactions")
    return elapsed


def _settled_end(handle: int, topic: str, expected: int) -> int:
    """Returns the end offset of a topic, after waiting for the last transaction marker, which is
    written after the response."""
    deadline = time.monotonic() + 10
    while (end := records_in(handle, topic, 1)) < expected and time.monotonic() < deadline:
        time.sleep(0.01)
    return end


def _enqueue(topic_handle: int, messages: "ctypes.Array[Message]", wanted: int) -> int:
    """Enqueues all records of a chunk, and waits while the client's queue is full."""
    native = library()
    done = 0
    size = ctypes.sizeof(Message)
    while done < wanted:
        start = ctypes.c_void_p(ctypes.addressof(messages) + done * size)
        taken = native.rd_kafka_produce_batch(topic_handle, 0, _F_PARTITION, start, wanted - done)
        done += taken
        if done < wanted:
            time.sleep(0.001)
    return done


def consume(bootstrap: str, topic: str, count: int, *, partitions: int) -> float:
    """Reads ``count`` records from the beginning. Returns the seconds up to the last record."""
    native = library()
    settings = {
        "bootstrap.servers": bootstrap,
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 262_144,
        "fetch.queue.backoff.ms": 5,
        "log_level": 3,
    }
    does_nothing = ctypes.cast(native.rd_kafka_version, ctypes.c_void_p)
    with client(_CONSUMER, settings) as handle:
        topic_handle = native.rd_kafka_topic_new(handle, topic.encode(), None)
        records_in(handle, topic, partitions)
        queue = native.rd_kafka_queue_new(handle)
        started = time.perf_counter()
        for partition in range(partitions):
            native.rd_kafka_consume_start_queue(topic_handle, partition, _OFFSET_BEGINNING, queue)
        left = count
        while left > 0:
            read = native.rd_kafka_consume_callback_queue(queue, 1000, does_nothing, None)
            if read < 0 or time.perf_counter() - started > _TIMEOUT_MS / 1000:
                raise RuntimeError(f"{left} of {count} records did not come")
            left -= read
        elapsed = time.perf_counter() - started
        for partition in range(partitions):
            native.rd_kafka_consume_stop(topic_handle, partition)
        native.rd_kafka_queue_destroy(queue)
        native.rd_kafka_topic_destroy(topic_handle)
    return elapsed


def round_trips(
    bootstrap: str, topic: str, count: int, interval_s: float, *, acks: str = "1"
) -> list[float]:
    """Measures the seconds from producing a record to consuming it, one record at a time at a fixed
    pace."""
    native = library()
    fast = {"bootstrap.servers": bootstrap, "socket.nagle.disable": "true", "log_level": 3}
    durations = []
    payload = ctypes.create_string_buffer(100)
    with (
        client(_PRODUCER, {**fast, "linger.ms": 0, "acks": acks}) as producer,
        client(_CONSUMER, fast) as consumer,
    ):
        sends = native.rd_kafka_topic_new(producer, topic.encode(), None)
        reads = native.rd_kafka_topic_new(consumer, topic.encode(), None)
        queue = native.rd_kafka_queue_new(consumer)
        records_in(producer, topic, 1)
        records_in(consumer, topic, 1)
        native.rd_kafka_consume_start_queue(reads, 0, _OFFSET_BEGINNING, queue)
        due = time.perf_counter()
        for _ in range(count):
            started = time.perf_counter()
            native.rd_kafka_produce(sends, 0, _F_COPY, payload, 100, None, 0, None)
            message = native.rd_kafka_consume_queue(queue, _TIMEOUT_MS)
            durations.append(time.perf_counter() - started)
            if not message or message.contents.err:
                raise RuntimeError("a record did not come back")
            native.rd_kafka_message_destroy(message)
            native.rd_kafka_poll(producer, 0)
            due = max(due + interval_s, time.perf_counter())
            time.sleep(max(0.0, due - time.perf_counter()))
        native.rd_kafka_consume_stop(reads, 0)
        native.rd_kafka_queue_destroy(queue)
        native.rd_kafka_topic_destroy(sends)
        native.rd_kafka_topic_destroy(reads)
    return durations
