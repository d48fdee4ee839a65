"""The story of `python_client.py` on a librdkafka of 1.x, through its C functions.

    python -m tests.conformance.generations.librdkafka_client LIBRARY BOOTSTRAP NAME

LIBRARY is the shared object. confluent-kafka of 1.x has no wheels for today's Pythons, but those
for older ones carry the library, and ctypes needs no more than that. Where a function is missing,
the generation does not have it.
"""

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from tests.conformance.generations.python_client import PATIENCE_S, Absent, Story, expect, within

PATIENCE_MS = int(PATIENCE_S * 1000)
PRODUCER, CONSUMER = 0, 1
COPY = 2
NO_ERROR, END_OF_PARTITION = 0, -191


class Message(ctypes.Structure):
    _fields_ = [
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("length", c_size_t),
        ("key", c_void_p),
        ("key_length", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    ]


class TopicPartition(ctypes.Structure):
    _fields_ = [
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("private", c_void_p),
    ]


class TopicPartitions(ctypes.Structure):
    _fields_ = [
        ("count", c_int),
        ("size", c_int),
        ("elements", POINTER(TopicPartition)),
    ]


DELIVERED = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Message), c_void_p)

RESULTS = {
    "rd_kafka_conf_new": c_void_p,
    "rd_kafka_new": c_void_p,
    "rd_kafka_topic_new": c_void_p,
    "rd_kafka_topic_partition_list_new": POINTER(TopicPartitions),
    "rd_kafka_consumer_poll": POINTER(Message),
    "rd_kafka_queue_new": c_void_p,
    "rd_kafka_queue_poll": c_void_p,
    "rd_kafka_NewTopic_new": c_void_p,
    "rd_kafka_DeleteTopic_new": c_void_p,
    "rd_kafka_event_CreateTopics_result": c_void_p,
    "rd_kafka_event_DeleteTopics_result": c_void_p,
    "rd_kafka_CreateTopics_result_topics": POINTER(c_void_p),
    "rd_kafka_DeleteTopics_result_topics": POINTER(c_void_p),
    "rd_kafka_version_str": c_char_p,
    "rd_kafka_err2str": c_char_p,
    "rd_kafka_error_string": c_char_p,
    "rd_kafka_init_transactions": c_void_p,
    "rd_kafka_begin_transaction": c_void_p,
    "rd_kafka_commit_transaction": c_void_p,
    "rd_kafka_abort_transaction": c_void_p,
    "rd_kafka_send_offsets_to_transaction": c_void_p,
    "rd_kafka_consumer_group_metadata_new": c_void_p,
}


def load(path: str) -> Any:
    for other in Path(path).parent.glob("libz-*"):
        ctypes.CDLL(str(other), mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(path)
    for name, result in RESULTS.items():
        if hasattr(library, name):
            getattr(library, name).restype = result
    return library


class Librdkafka(Story):
    def __init__(self, library: str, bootstrap: str, name: str) -> None:
        super().__init__(bootstrap, name)
        self.c = load(library)
        self.failures: list[int] = []
        self.delivered = DELIVERED(self._note_delivery)

    def _note_delivery(self, _: Any, message: Any, opaque: Any) -> None:
        if message.contents.err:
            self.failures.append(message.contents.err)

    def version(self) -> str:
        return str(self.c.rd_kafka_version_str().decode())

    def check(self, code: int) -> None:
        if code != NO_ERROR:
            raise RuntimeError(self.c.rd_kafka_err2str(code).decode())

    def check_error(self, error: int | None) -> None:
        if error:
            raise RuntimeError(self.c.rd_kafka_error_string(c_void_p(error)).decode())

    def open(self, kind: int, settings: dict[str, str]) -> c_void_p:
        conf = c_void_p(self.c.rd_kafka_conf_new())
        why = ctypes.create_string_buffer(500)
        for name, value in {"bootstrap.servers": self.bootstrap, **settings}.items():
            if self.c.rd_kafka_conf_set(conf, name.encode(), value.encode(), why, 500) != 0:
                raise RuntimeError(why.value.decode())
        if kind == PRODUCER:
            self.c.rd_kafka_conf_set_dr_msg_cb(conf, self.delivered)
        made = self.c.rd_kafka_new(kind, conf, why, 500)
        if not made:
            raise RuntimeError(why.value.decode())
        return c_void_p(made)

    def partitions(self, offset: int) -> Any:
        made = self.c.rd_kafka_topic_partition_list_new(1)
        self.c.rd_kafka_topic_partition_list_add(made, self.topic.encode(), 0)
        made.contents.elements[0].offset = offset
        return made

    # Admin

    def administrate(self, verb: str, item: int) -> None:
        client = self.open(PRODUCER, {})
        queue = c_void_p(self.c.rd_kafka_queue_new(client))
        items = (c_void_p * 1)(item)
        getattr(self.c, f"rd_kafka_{verb}")(client, items, c_size_t(1), None, queue)
        polled = self.c.rd_kafka_queue_poll(queue, PATIENCE_MS)
        if not polled:
            raise RuntimeError("no answer")
        event = c_void_p(polled)
        self.check(self.c.rd_kafka_event_error(event))
        result = c_void_p(getattr(self.c, f"rd_kafka_event_{verb}_result")(event))
        count = c_size_t()
        topics = getattr(self.c, f"rd_kafka_{verb}_result_topics")(result, ctypes.byref(count))
        expect(count.value, 1)
        self.check(self.c.rd_kafka_topic_result_error(c_void_p(topics[0])))
        self.c.rd_kafka_event_destroy(event)
        self.c.rd_kafka_queue_destroy(queue)
        self.c.rd_kafka_destroy(client)

    def create(self) -> None:
        why = ctypes.create_string_buffer(500)
        item = self.c.rd_kafka_NewTopic_new(self.topic.encode(), 1, 1, why, c_size_t(500))
        self.administrate("CreateTopics", item)

    def delete(self) -> None:
        self.administrate("DeleteTopics", self.c.rd_kafka_DeleteTopic_new(self.topic.encode()))

    def describe(self) -> None:
        client = self.open(CONSUMER, {"group.id": self.group})
        low, high = c_int64(-1), c_int64(-1)
        self.check(
            self.c.rd_kafka_query_watermark_offsets(
                client,
                self.topic.encode(),
                0,
                ctypes.byref(low),
                ctypes.byref(high),
                PATIENCE_MS,
            )
        )
        expect((low.value, high.value), (0, 0))
        self.c.rd_kafka_destroy(client)

    # Records

    def put(self, producer: c_void_p, values: list[str]) -> None:
        topic = c_void_p(self.c.rd_kafka_topic_new(producer, self.topic.encode(), None))
        for value in values:
            data = value.encode()
            size = c_size_t(len(data))
            none = c_size_t(0)
            expect(self.c.rd_kafka_produce(topic, 0, COPY, data, size, None, none, None), 0)
        self.check(self.c.rd_kafka_flush(producer, PATIENCE_MS))
        expect(self.failures, [])
        self.c.rd_kafka_topic_destroy(topic)

    def write(self, values: list[str], *, acks: str, codec: str) -> None:
        producer = self.open(PRODUCER, {"acks": acks, "compression.codec": codec})
        self.put(producer, values)
        self.c.rd_kafka_destroy(producer)

    def take(self, consumer: c_void_p, count: int) -> list[str]:
        values: list[str] = []
        for _ in within():
            if len(values) == count:
                break
            message = self.c.rd_kafka_consumer_poll(consumer, 200)
            if not message:
                continue
            found = message.contents
            if found.err == NO_ERROR:
                values.append(ctypes.string_at(found.payload, found.length).decode())
            elif found.err != END_OF_PARTITION:
                self.check(found.err)
            self.c.rd_kafka_message_destroy(message)
        return values

    def consumer(self, group: str) -> c_void_p:
        consumer = self.open(
            CONSUMER,
            {
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
                "isolation.level": "read_committed",
            },
        )
        self.c.rd_kafka_poll_set_consumer(consumer)
        return consumer

    def read(self, count: int) -> list[str]:
        consumer = self.consumer(self.group)
        self.check(self.c.rd_kafka_assign(consumer, self.partitions(0)))
        values = self.take(consumer, count)
        self.c.rd_kafka_consumer_close(consumer)
        self.c.rd_kafka_destroy(consumer)
        return values

    def read_in_group(self, group: str, count: int, settings: dict[str, object]) -> list[str]:
        consumer = self.consumer(group)
        topics = self.partitions(-1001)
        topics.contents.elements[0].partition = -1
        self.check(self.c.rd_kafka_subscribe(consumer, topics))
        values = self.take(consumer, count)
        self.check(self.c.rd_kafka_commit(consumer, None, 0))
        self.c.rd_kafka_consumer_close(consumer)
        self.c.rd_kafka_destroy(consumer)
        return values

    def transact(self) -> None:
        if not hasattr(self.c, "rd_kafka_init_transactions"):
            raise Absent
        group = f"{self.group}-transaction"
        producer = self.open(PRODUCER, {"transactional.id": self.transactional_id})
        self.check_error(self.c.rd_kafka_init_transactions(producer, PATIENCE_MS))
        self.check_error(self.c.rd_kafka_begin_transaction(producer))
        self.put(producer, ["aborted"])
        self.check_error(self.c.rd_kafka_abort_transaction(producer, PATIENCE_MS))
        self.check_error(self.c.rd_kafka_begin_transaction(producer))
        self.put(producer, ["committed"])
        metadata = c_void_p(self.c.rd_kafka_consumer_group_metadata_new(group.encode()))
        self.check_error(
            self.c.rd_kafka_send_offsets_to_transaction(
                producer, self.partitions(7), metadata, PATIENCE_MS
            )
        )
        self.check_error(self.c.rd_kafka_commit_transaction(producer, PATIENCE_MS))
        self.c.rd_kafka_destroy(producer)
        consumer = self.consumer(group)
        committed = self.partitions(-1001)
        self.check(self.c.rd_kafka_committed(consumer, committed, PATIENCE_MS))
        expect(committed.contents.elements[0].offset, 7)
        self.c.rd_kafka_consumer_close(consumer)
        self.c.rd_kafka_destroy(consumer)
        self.written.append("committed")
        expect(self.read(len(self.written)), self.written)


if __name__ == "__main__":
    Librdkafka(*sys.argv[1:]).tell()
