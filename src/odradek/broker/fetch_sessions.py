"""Incremental fetch sessions (KIP-227): a consumer of many partitions names only what changes.

A session remembers which partitions a client fetches and what it was told last, so a request
carries the changes and a response only the partitions with something new. Sessions live in a
bounded cache; a client whose session is gone is told so and starts with a full request again.

    request (session id, epoch)    meaning
    (0, -1)                        full, no session wanted
    (0, 0)                         full, make a session
    (id, 0)                        full, replace that session
    (id, -1)                       full, end that session
    (id, n > 0)                    the changes since request n - 1
"""

from collections.abc import Iterable
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.types import NO_TOPIC_ID, TopicId
from odradek.world import Randomness

_FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1
_FIRST_VERSION_WITH_IDS: Final = 13

Key = tuple[str | TopicId, int]


class FetchEntry:
    """One partition of a fetch: what the client asks and what it was told last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
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

    @property
    def key(self) -> Key:
        return (self.topic or self.topic_id, self.partition)


class FetchSession:
    """Invariant: `entries` is in the order in which partitions are served next."""

    __slots__ = ("entries", "epoch", "session_id", "used_s", "uses_ids")

    def __init__(self, session_id: int, uses_ids: bool, entries: Iterable[FetchEntry]) -> None:
        self.session_id = session_id
        self.uses_ids = uses_ids
        self.epoch = 1
        self.used_s = 0.0
        self.entries = {entry.key: entry for entry in entries}

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def change(self, request: FetchRequest, version: int) -> None:
        entries = self.entries
        for changed in _requested(request, version, entries):
            entries[changed.key] = changed
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.uses_ids else forgotten.topic
            for partition in forgotten.partitions:
                entries.pop((name, partition), None)

    def serve_later(self, served: Iterable[FetchEntry]) -> None:
        """Partitions that gave data go to the end, so that a busy one does not starve the rest."""
        for entry in served:
            key = entry.key
            if key in self.entries:
                self.entries[key] = self.entries.pop(key)


class Fetch:
    """A request seen through its session: the partitions to read, and how to answer."""

    __slots__ = ("entries", "error", "incremental", "session")

    def __init__(
        self,
        entries: list[FetchEntry],
        session: FetchSession | None = None,
        *,
        incremental: bool = False,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.entries = entries
        self.session = session
        self.incremental = incremental
        self.error = error

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session is not None else 0


class FetchSessions:
    """A bounded cache; the session unused longest makes room once it has been idle long enough."""

    def __init__(self, slots: int, randomness: Randomness, evict_after_s: float = 120.0) -> None:
        self._slots = slots
        self._randomness = randomness
        self._evict_after_s = evict_after_s
        # In the order of use, the session unused longest first.
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, version: int, now_s: float) -> Fetch:
        session_id, epoch = request.session_id, request.session_epoch
        if epoch > 0:
            return self._continue(request, version, now_s)
        if session_id:
            self._sessions.pop(session_id, None)
        entries = list(_requested(request, version, {}))
        if epoch == _FINAL_EPOCH or not entries:
            return Fetch(entries)
        return Fetch(entries, self._create(entries, version >= _FIRST_VERSION_WITH_IDS, now_s))

    def _continue(self, request: FetchRequest, version: int, now_s: float) -> Fetch:
        session = self._sessions.get(request.session_id)
        if session is None:
            return Fetch([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return Fetch([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != (version >= _FIRST_VERSION_WITH_IDS):
            return Fetch([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.change(request, version)
        if not session.entries:
            del self._sessions[session.session_id]
            return Fetch([])
        session.advance()
        session.used_s = now_s
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return Fetch(list(session.entries.values()), session, incremental=True)

    def _create(
        self, entries: list[FetchEntry], uses_ids: bool, now_s: float
    ) -> FetchSession | None:
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_s - oldest.used_s < self._evict_after_s:
                return None
            del self._sessions[oldest.session_id]
        session_id = 0
        while not session_id or session_id in self._sessions:
            session_id = 1 + self._randomness.below(2**31 - 2)
        session = FetchSession(session_id, uses_ids, entries)
        session.used_s = now_s
        self._sessions[session_id] = session
        return session


def _requested(
    request: FetchRequest, version: int, known: dict[Key, FetchEntry]
) -> Iterable[FetchEntry]:
    """The partitions a request names, new or changed."""
    uses_ids = version >= _FIRST_VERSION_WITH_IDS
    for topic in request.topics:
        name: str | TopicId = topic.topic_id if uses_ids else topic.topic
        for asked in topic.partitions:
            entry = known.get((name, asked.partition))
            if entry is None:
                entry = (
                    FetchEntry("", TopicId(topic.topic_id), asked.partition)
                    if uses_ids
                    else FetchEntry(topic.topic, NO_TOPIC_ID, asked.partition)
                )
            entry.fetch_offset = asked.fetch_offset
            entry.max_bytes = asked.partition_max_bytes
            entry.current_leader_epoch = asked.current_leader_epoch
            entry.last_fetched_epoch = asked.last_fetched_epoch
            entry.log_start_offset = asked.log_start_offset
            yield entry
