"""Plain counters of a client. Whoever does something adds to them; `figures` reads them."""


class Latency:
    """How long something took: how often, in all, at most lately, and when it last happened."""

    __slots__ = ("count", "last_s", "max_s", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = self.max_s = self.last_s = 0.0

    def add(self, took_s: float, now_s: float) -> None:
        self.count += 1
        self.total_s += took_s
        self.max_s = max(self.max_s, took_s)
        self.last_s = now_s


class ConnectionCounts:
    """The requests to one address, over all connections to it one after the other."""

    __slots__ = ("bytes_in", "bytes_out", "latency", "opened", "requests")

    def __init__(self) -> None:
        self.opened = self.requests = self.bytes_in = self.bytes_out = 0
        # By the key of the API.
        self.latency: dict[int, Latency] = {}

    def answered(self, api_key: int, took_s: float, size: int, now_s: float) -> None:
        self.bytes_in += size
        latency = self.latency.get(api_key)
        if latency is None:
            latency = self.latency[api_key] = Latency()
        latency.add(took_s, now_s)


class TopicCounts:
    """Of a producer: records sent, failed and retried. Of a consumer: records returned."""

    __slots__ = ("bytes", "errors", "fetches", "records", "retries")

    def __init__(self) -> None:
        self.records = self.bytes = self.errors = self.retries = self.fetches = 0


class ProducerCounts:
    __slots__ = ("batch_max_bytes", "batches", "queue", "requests", "splits", "topics")

    def __init__(self) -> None:
        self.batches = self.batch_max_bytes = self.splits = self.requests = 0
        # The time of batches from their first record until they are sent.
        self.queue = Latency()
        self.topics: dict[str, TopicCounts] = {}

    def topic(self, name: str) -> TopicCounts:
        counts = self.topics.get(name)
        if counts is None:
            counts = self.topics[name] = TopicCounts()
        return counts

    def sent(self, topic: str, records: int, size: int, waited_s: float, now_s: float) -> None:
        """Counts a batch that is sent for the first time."""
        counts = self.topic(topic)
        counts.records += records
        counts.bytes += size
        self.batches += 1
        self.batch_max_bytes = max(self.batch_max_bytes, size)
        self.queue.add(waited_s, now_s)


class ConsumerCounts:
    __slots__ = ("topics",)

    def __init__(self) -> None:
        self.topics: dict[str, TopicCounts] = {}

    def fetched(self, topic: str, size: int) -> None:
        counts = self._topic(topic)
        counts.fetches += 1
        counts.bytes += size

    def returned(self, topic: str, records: int) -> None:
        self._topic(topic).records += records

    def _topic(self, name: str) -> TopicCounts:
        counts = self.topics.get(name)
        if counts is None:
            counts = self.topics[name] = TopicCounts()
        return counts
