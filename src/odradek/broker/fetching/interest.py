"""What a fetch is about, and which of its partitions may have something new.

A fetch over a thousand partitions must not read all of them whenever one moves, nor whenever
its client asks again. So a partition of which there was nothing to tell is left alone, *quiet*,
until the watermark that it is registered with moves; all others are *hot* and are read next,
in the order in which they became so. With a session that outlives the request, an answer and the
next question cost what has changed and nothing for the rest.

Invariant: whatever is not hot is registered, or was read by the request under way.
"""

import asyncio
from collections.abc import Iterable

from odradek.metadata import ClusterImage
from odradek.protocol.types import TopicId
from odradek.replication.leadership import Follower
from odradek.statemachine.watermark import Watermark

Key = tuple[str | TopicId, int]


class FetchEntry:
    """One partition of a fetch: what the client asks and what it was told last."""

    __slots__ = (
        "_watermark",
        "current_leader_epoch",
        "fetch_offset",
        "follower",
        "interest",
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
        self.interest: Interest | None = None
        # While a replica's partition is quiet: each of its fetches says again that it keeps up.
        self.follower: Follower | None = None
        self._watermark: Watermark | None = None

    @property
    def key(self) -> Key:
        return (self.topic or self.topic_id, self.partition)

    def watch(self, watermark: Watermark) -> None:
        """Becomes hot when it moves. To be called in the same step as the read that found too
        little: what is appended in between would wake nobody."""
        if self._watermark is not watermark:
            self.leave()
            watermark.waiters[self] = None
            self._watermark = watermark

    def leave(self) -> None:
        if self._watermark is not None:
            self._watermark.waiters.pop(self, None)
            self._watermark = None

    def wake(self) -> None:
        self._watermark = None
        if self.interest is not None:
            self.interest.woken(self)


def is_known(image: ClusterImage, entry: FetchEntry) -> bool:
    """Returns whether the partition exists in the cluster as this broker knows it."""
    topic = image.topics.get(entry.topic) or image.topics_by_id.get(entry.topic_id)
    return topic is not None and 0 <= entry.partition < len(topic.partitions)


class Interest:
    __slots__ = ("_alarm", "_hot", "heard_s")

    def __init__(self, entries: Iterable[FetchEntry], now_s: float) -> None:
        # When the client asked last.
        self.heard_s = now_s
        self._alarm: asyncio.Future[bool] | None = None
        self._hot: dict[FetchEntry, None] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: FetchEntry) -> None:
        """It is new, or the client asks for something else: to be read."""
        entry.interest = self
        self._warm(entry)

    def remove(self, entry: FetchEntry) -> None:
        entry.leave()
        entry.interest = entry.follower = None
        self._hot.pop(entry, None)

    def take(self) -> list[FetchEntry]:
        """What is to be read now. Each is then watched, or given back."""
        hot, self._hot = list(self._hot), {}
        return hot

    def give_back(self, entries: Iterable[FetchEntry]) -> None:
        """They are to be read again, after those that are waiting to be."""
        for entry in entries:
            if entry.interest is self:
                self._warm(entry)

    def woken(self, entry: FetchEntry) -> None:
        self._warm(entry)
        self.stir()

    def _warm(self, entry: FetchEntry) -> None:
        if entry.follower is not None:
            entry.follower.heard_again(self.heard_s)
            entry.follower = None
        self._hot[entry] = None

    @property
    def is_stirred(self) -> bool:
        """Whether something is to be read. After `take` and before anything is given back: whether
        something has moved since."""
        return bool(self._hot)

    def stir(self) -> None:
        """Ends the wait as if something had moved: what is hot can be read now."""
        if self._alarm is not None and not self._alarm.done():
            self._alarm.set_result(True)

    def hurry(self) -> None:
        """Ends the wait: the client wants something else."""
        if self._alarm is not None and not self._alarm.done():
            self._alarm.set_result(False)

    def arm(self) -> None:
        """Whatever moves from now on ends the next wait, also before it begins."""
        self._alarm = asyncio.get_running_loop().create_future()

    async def wait(self, timeout_s: float) -> bool:
        """True when something moved, False when the time is up or the client in a hurry."""
        alarm = self._alarm
        assert alarm is not None  # armed in the step that read
        timer = asyncio.get_running_loop().call_later(timeout_s, self.hurry)
        try:
            return await alarm
        finally:
            timer.cancel()
            if self._alarm is alarm:
                self._alarm = None
