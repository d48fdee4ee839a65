"""The partitions of a client's fetches, and which of them are due to be read.

A fetch over a thousand partitions must not read all of them whenever one changes, nor whenever its
client sends the next request. So a partition is *due*, *being read* by the current request, or
*idle*. A request reads the partitions that are due, in the order in which they became due. The
client knows everything about an idle partition. An idle partition is registered with a watermark,
and becomes due when the watermark advances, fails or is nudged. A session keeps due and idle
partitions from one request to the next, so the work for a request is proportional to the number of
partitions that have changed, not to the size of the session.

Invariant: between two requests a partition that is not due is registered with a watermark
(`FetchSession.check`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.metadata import ClusterImage
from odradek.protocol.types import FIRST_OFFSET, NO_OFFSET, TopicId
from odradek.replication.leadership import Follower
from odradek.replication.replica import NO_EPOCH
from odradek.statemachine.watermark import Watermark

if TYPE_CHECKING:
    from odradek.broker.fetching.fetch_lifecycle import Fetch

Key = tuple[str | TopicId, int]


class FetchEntry:
    """One partition of a fetch: what the client requests, and which offsets the last response had
    for it."""

    __slots__ = (
        "_watermark",
        "current_leader_epoch",
        "due_partitions",
        "fetch_offset",
        "idle_follower",
        "last_fetched_epoch",
        "last_sent_high_watermark",
        "last_sent_log_start",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: TopicId, partition: int) -> None:
        """A request has the topic's name or its id, depending on its version. The other of the two
        is empty."""
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = FIRST_OFFSET
        self.max_bytes = 0
        self.current_leader_epoch = NO_EPOCH
        self.last_fetched_epoch = NO_EPOCH
        self.log_start_offset = NO_OFFSET
        self.last_sent_high_watermark = NO_OFFSET
        self.last_sent_log_start = NO_OFFSET
        # None after the client has removed the partition from the session
        # (`forgotten_topics_data`).
        self.due_partitions: DuePartitions | None = None
        # Set while the partition is idle and the client is a follower. Idle partitions are not
        # read, so when the partition becomes due, the time of the follower's last request is passed
        # to it (`confirm_caught_up`).
        self.idle_follower: Follower | None = None
        self._watermark: Watermark | None = None

    @property
    def key(self) -> Key:
        return (self.topic or self.topic_id, self.partition)

    @property
    def is_registered(self) -> bool:
        """Whether the partition is registered with a watermark, which will make it due."""
        return self._watermark is not None

    def register(self, watermark: Watermark) -> None:
        """Registers the partition with the watermark, which makes it due when it moves. Must be
        called in the step of the event loop that read the partition: a change between the read and
        the registration would be missed."""
        if self._watermark is not watermark:
            self.unregister()
            watermark.waiters[self] = None
            self._watermark = watermark

    def unregister(self) -> None:
        if self._watermark is not None:
            self._watermark.waiters.pop(self, None)
            self._watermark = None

    def wake(self) -> None:
        """Makes the partition due. Called by the watermark when it has moved, failed or been
        nudged; it has unregistered the entry."""
        self._watermark = None
        if self.due_partitions is not None:
            self.due_partitions.mark_changed(self)


def is_known(image: ClusterImage, entry: FetchEntry) -> bool:
    """Returns whether the partition exists in the cluster as this broker knows it."""
    topic = image.topics.get(entry.topic) or image.topics_by_id.get(entry.topic_id)
    return topic is not None and 0 <= entry.partition < len(topic.partitions)


class DuePartitions:
    """The partitions of a fetch session, or of a fetch without session, that must be read next."""

    __slots__ = ("_due", "_listener", "requested_s")

    def __init__(self, entries: Iterable[FetchEntry], now_s: float) -> None:
        # The time of the client's last request.
        self.requested_s = now_s
        # A dict, because it keeps the order.
        self._due: dict[FetchEntry, None] = {}
        # The fetch that reads these partitions or waits for them to change.
        self._listener: Fetch | None = None
        for entry in entries:
            self.add(entry)

    def __contains__(self, entry: FetchEntry) -> bool:
        return entry in self._due

    def add(self, entry: FetchEntry) -> None:
        """Adds a new partition, or one whose fetch offset or limits the client has changed. It
        becomes due."""
        entry.due_partitions = self
        self._make_due(entry)

    def remove(self, entry: FetchEntry) -> None:
        """Removes a partition that the client does not fetch any more."""
        entry.unregister()
        entry.due_partitions = entry.idle_follower = None
        self._due.pop(entry, None)

    def take_all(self) -> list[FetchEntry]:
        """Removes and returns the partitions that are due. The caller reads each, and then
        registers it with a watermark or puts it back."""
        due, self._due = list(self._due), {}
        return due

    def put_back(self, entries: Iterable[FetchEntry]) -> None:
        """Makes partitions due, behind those that are due already. Partitions that the client has
        removed meanwhile are ignored."""
        for entry in entries:
            if entry.due_partitions is self:
                self._make_due(entry)

    def mark_changed(self, entry: FetchEntry) -> None:
        """Makes a partition due, and wakes the fetch that listens (`set_listener`)."""
        self._make_due(entry)
        if self._listener is not None:
            self._listener.partition_changed()

    def _make_due(self, entry: FetchEntry) -> None:
        if entry.idle_follower is not None:
            entry.idle_follower.confirm_caught_up(self.requested_s)
            entry.idle_follower = None
        self._due[entry] = None

    # The current fetch

    def set_listener(self, fetch: "Fetch") -> None:
        """Makes `fetch` the one that is told when a partition changes."""
        self._listener = fetch

    def clear_listener(self, fetch: "Fetch") -> None:
        if self._listener is fetch:
            self._listener = None

    def supersede(self) -> bool:
        """Ends the current fetch, and returns whether there was one. Called when a new request of
        the session arrives, or the session is closed, while the broker still serves the previous
        fetch of the session."""
        if self._listener is None:
            return False
        self._listener.supersede()
        self._listener = None
        return True
