"""A handler for Python's `logging` that writes an application's log lines to a topic.

    python examples/log_handler.py localhost:9092 logs

Each line is a JSON object; the key is the application's name, so the lines of one application are
in order. The program never waits for a broker and never fails because of one: lines go through a
bounded queue to a thread that sends them, and what finds the queue full, or cannot be delivered, is
counted. Leaving the `with` block sends what is left.

    with log_to_topic("localhost:9092", "logs", "shop"):
        logging.getLogger("shop.orders").warning("order %d has no address", 7)
"""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import QueueHandler, QueueListener
from queue import Full, Queue

from odradek.client.producer.deliveries import RecordMetadata
from odradek.client.sync import Producer

# How long the thread waits for a broker, for each line, before the line is lost.
PATIENCE_MS = 5_000
QUEUED_LINES = 10_000


class JsonFormatter(logging.Formatter):
    """One JSON object for each line, with the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TopicHandler(logging.Handler):
    """Sends lines to a topic. Used behind a queue, because `emit` waits while no broker answers."""

    def __init__(self, servers: str, topic: str, application: str) -> None:
        super().__init__()
        self.lost = 0
        self._topic = topic
        self._key = application.encode()
        self._producer = Producer(
            bootstrap_servers=servers,
            linger_ms=100,
            max_block_ms=PATIENCE_MS,
            request_timeout_ms=PATIENCE_MS,
            delivery_timeout_ms=2 * PATIENCE_MS,
        )
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode()
            at_ms = int(record.created * 1000)
            self._producer.send(
                self._topic, line, self._key, timestamp_ms=at_ms, on_delivery=self._delivered
            )
        except Exception:  # noqa: BLE001
            # Whatever is wrong with the brokers or the line, logging must not end the program.
            self.lost += 1

    def _delivered(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        self.lost += error is not None

    def close(self) -> None:
        self._producer.close(PATIENCE_MS)
        super().close()


class BoundedQueueHandler(QueueHandler):
    """Puts lines into the queue without waiting, and counts those that find no room.

    The lines of the client itself are left out: a broker that cannot be reached would otherwise
    make lines about lines.
    """

    def __init__(self, queue: "Queue[logging.LogRecord | None]") -> None:
        super().__init__(queue)
        self.lost = 0
        self.addFilter(lambda record: not record.name.startswith("odradek.client"))

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # The same process formats it, so nothing has to be made ready for transport.

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except Full:
            self.lost += 1


class SendingThread(QueueListener):
    """The thread that takes lines from the queue. `stop` waits until it has sent them."""

    def __init__(self, lines: "Queue[logging.LogRecord | None]", handler: TopicHandler) -> None:
        super().__init__(lines, handler)
        self._lines = lines

    def enqueue_sentinel(self) -> None:
        # The library's own does not wait for room, and raises where the queue is full.
        self._lines.put(None)


class LostLines:
    """How many lines did not reach the topic."""

    def __init__(self, before: BoundedQueueHandler, after: TopicHandler) -> None:
        self._before = before
        self._after = after

    @property
    def count(self) -> int:
        return self._before.lost + self._after.lost


@contextmanager
def log_to_topic(
    servers: str, topic: str, application: str, level: int = logging.INFO
) -> Iterator[LostLines]:
    """Within the block, all loggers of the program also write to the topic."""
    queue: Queue[logging.LogRecord | None] = Queue(QUEUED_LINES)
    sending = TopicHandler(servers, topic, application)
    queueing = BoundedQueueHandler(queue)
    queueing.setLevel(level)
    listener = SendingThread(queue, sending)
    root = logging.getLogger()
    root.addHandler(queueing)
    listener.start()
    try:
        yield LostLines(queueing, sending)
    finally:
        root.removeHandler(queueing)
        listener.stop()
        sending.close()


def main(servers: str, topic: str) -> None:
    logging.basicConfig(level=logging.INFO)
    log = logging.getLogger("shop.orders")
    with log_to_topic(servers, topic, "shop") as lost:
        log.info("the shop opens")
        try:
            raise KeyError("address")
        except KeyError:
            log.exception("order %d cannot be sent", 7)
    print(f"{lost.count} lines were lost")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)  # which shows how to call it
    main(*sys.argv[1:3])
