"""Topics that a consumer has subscribed to before they exist, and where it begins to read them.

`auto.offset.reset=latest` means what is written from the subscription on. The topic and its first
records may be there up to a second before this consumer sees them, so the end of the log would be
too late. It begins with the first record that is not older than the waiting. (The beginning of the
log would be wrong: a broker that has just started may take an old topic for unknown.)
"""

from odradek.protocol.types import TopicPartition


class AwaitedTopics:
    """Since when a consumer waits for topics, and which of their partitions it has begun to read.

    Only the first look-up of a partition goes back to that time: a consumer that commits nothing
    must not read all again after each rebalance.
    """

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}
        self._begun: set[TopicPartition] = set()

    def note_missing(self, topic: str, now_ms: int) -> None:
        """Notes that a topic does not exist; called again as long as that is so."""
        begun = {partition for partition in self._begun if partition.topic == topic}
        if begun:
            # It was there and has been deleted, so this is another wait.
            self._begun -= begun
            self._since_ms[topic] = now_ms
        else:
            self._since_ms.setdefault(topic, now_ms)

    def begin(self, partition: TopicPartition) -> int | None:
        """Returns the time from which on to read a partition, once, if it was waited for."""
        since_ms = self._since_ms.get(partition.topic)
        if since_ms is None or partition in self._begun:
            return None
        self._begun.add(partition)
        return since_ms
