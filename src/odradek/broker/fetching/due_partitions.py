"""The partitions of a client's fetches, and which of them are due to be read.

A fetch over a thousand partitions must not read all of them whenever one changes, nor whenever its
client asks again. So a partition is either *due* or *idle*. The next pass reads those that are due,
in the order in which they became so. An idle partition has nothing that the client does not know;
it is registered with a watermark, and becomes due when that moves or fails. A session keeps both
from one request to the next, so a request and its response cost what has changed since the last
one, and nothing for the idle rest.

Invariant: a partition that is not due is registered with a watermark, or is being read by the
request under way (`FetchSession.check`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.metadata import ClusterImage
from odradek.protocol.types import TopicId
from odradek.replication.leadership import Follower
from odradek.statemachine.watermark import Watermark

if TYPE_CHECKING:
    from odradek.broker.fetching.fetch_lifecycle import Fetch

Key = tuple[str | TopicId, int]


class FetchEntry:
    """One partition of a fetch: what the client asks for, and what it was told last."""

    __slots__ = (
        "_watermark",
        "current_leader_epoch",
        "due_partitions",
        "fetch_offset",
        "idle_follower",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "told_high_watermark",
        "told_log_start",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: TopicId, partition: int) -> None:
        """Clients name the topic or its id, depending on the version: the other one is empty."""
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = 0
        self.max_bytes = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.log_start_offset = -1
        self.told_high_watermark = -1
        self.told_log_start = -1
        # None after the client has left the partition out.
        self.due_partitions: DuePartitions | None = None
        # The follower that fetches, while its partition is idle. Idle partitions are not read, so
        # this is how its fetches still say that it keeps up (`DuePartitions.requested_s`).
        self.idle_follower: Follower | None = None
        self._watermark: Watermark | None = None

    @property
    def key(self) -> Key:
        return (self.topic or self.topic_id, self.partition)

    @property
    def is_registered(self) -> bool:
        """Whether a watermark will make it due."""
        return self._watermark is not None

    def register(self, watermark: Watermark) -> None:
        """Becomes due when the watermark moves. Must be called in the step of the event loop that
        read the partition: a change between the two would be noticed by neither."""
        if self._watermark is not watermark:
            self.unregister()
            watermark.waiters[self] = None
            self._watermark = watermark

    def unregister(self) -> None:
        if self._watermark is not None:
            self._watermark.waiters.pop(self, None)
            self._watermark = None

    def wake(self) -> None:
        """Called by the watermark, which has moved or failed and has unregistered the entry."""
        self._watermark = None
        if self.due_partitions is not None:
            self.due_partitions.changed(self)


def is_known(image: ClusterImage, entry: FetchEntry) -> bool:
    """Returns whether the partition exists in the cluster as this broker knows it."""
    topic = image.topics.get(entry.topic) or image.topics_by_id.get(entry.topic_id)
    return topic is not None and 0 <= entry.partition < len(topic.partitions)


class DuePartitions:
    """Those partitions of a session, or of a fetch without one, that the next pass reads."""

    __slots__ = ("_due", "_fetch", "requested_s")

    def __init__(self, entries: Iterable[FetchEntry], now_s: float) -> None:
        # The time of the client's last request.
        self.requested_s = now_s
        # A dict, because it keeps the order.
        self._due: dict[FetchEntry, None] = {}
        # The fetch under way, if it wants to know of changes.
        self._fetch: Fetch | None = None
        for entry in entries:
            self.add(entry)

    def __contains__(self, entry: FetchEntry) -> bool:
        return entry in self._due

    def add(self, entry: FetchEntry) -> None:
        """Takes in a partition that is new, or of which the client asks for something else."""
        entry.due_partitions = self
        self._make_due(entry)

    def remove(self, entry: FetchEntry) -> None:
        """The client does not fetch this partition any more."""
        entry.unregister()
        entry.due_partitions = entry.idle_follower = None
        self._due.pop(entry, None)

    def take_all(self) -> list[FetchEntry]:
        """Returns the partitions that are due. The caller reads each, and then registers it with
        a watermark or puts it back."""
        due, self._due = list(self._due), {}
        return due

    def put_back(self, entries: Iterable[FetchEntry]) -> None:
        """Makes partitions due, after those that are due already."""
        for entry in entries:
            if entry.due_partitions is self:
                self._make_due(entry)

    def changed(self, entry: FetchEntry) -> None:
        self._make_due(entry)
        if self._fetch is not None:
            self._fetch.partition_changed()

    def _make_due(self, entry: FetchEntry) -> None:
        if entry.idle_follower is not None:
            entry.idle_follower.heard_again(self.requested_s)
            entry.idle_follower = None
        self._due[entry] = None

    # The fetch under way

    def notify(self, fetch: "Fetch") -> None:
        """Tells this fetch of changes from now on."""
        self._fetch = fetch

    def stop_notifying(self, fetch: "Fetch") -> None:
        if self._fetch is fetch:
            self._fetch = None

    def supersede(self) -> bool:
        """Ends the fetch that is under way; returns whether there was one. Called when the session
        goes on or ends on another connection, while the broker still serves the previous one."""
        if self._fetch is None:
            return False
        self._fetch.supersede()
        self._fetch = None
        return True
