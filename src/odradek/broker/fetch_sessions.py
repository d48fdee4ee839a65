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

from odradek.broker.interest import FetchEntry, Interest, Key
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.types import NO_TOPIC_ID, TopicId
from odradek.world import Randomness

_FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1
_FIRST_VERSION_WITH_IDS: Final = 13


class FetchSession:
    """The partitions that a client fetches, from one of its requests to the next."""

    __slots__ = (
        "entries",
        "epoch",
        "interest",
        "replica_epoch",
        "session_id",
        "used_s",
        "uses_ids",
    )

    def __init__(
        self, session_id: int, uses_ids: bool, entries: Iterable[FetchEntry], now_s: float
    ) -> None:
        self.session_id = session_id
        self.uses_ids = uses_ids
        self.epoch = 1
        self.used_s = now_s
        # Of the broker that fetches, if one does.
        self.replica_epoch = -1
        self.entries = {entry.key: entry for entry in entries}
        self.interest = Interest(self.entries.values(), now_s)

    def advance(self, now_s: float) -> None:
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1
        self.used_s = self.interest.heard_s = now_s

    def change(self, request: FetchRequest, version: int) -> None:
        entries = self.entries
        for changed in _requested(request, version, entries):
            entries[changed.key] = changed
            self.interest.add(changed)
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.uses_ids else forgotten.topic
            for partition in forgotten.partitions:
                gone = entries.pop((name, partition), None)
                if gone is not None:
                    self.interest.remove(gone)

    def doubt(self) -> None:
        """Every partition is to be read, also those that were silent."""
        self.interest.give_back(self.entries.values())

    def close(self) -> None:
        for entry in self.entries.values():
            self.interest.remove(entry)
        self.entries = {}


class Fetch:
    """A request seen through its session: the partitions to read, and how to answer."""

    __slots__ = ("error", "incremental", "interest", "session")

    def __init__(
        self,
        interest: Interest,
        session: FetchSession | None = None,
        *,
        incremental: bool = False,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.interest = interest
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
            self._end(session_id)
        entries = list(_requested(request, version, {}))
        if epoch != _FINAL_EPOCH and entries:
            session = self._create(entries, version >= _FIRST_VERSION_WITH_IDS, now_s)
            if session is not None:
                return Fetch(session.interest, session)
        return Fetch(Interest(entries, now_s))

    def _continue(self, request: FetchRequest, version: int, now_s: float) -> Fetch:
        session = self._sessions.get(request.session_id)
        error = ErrorCode.NONE
        if session is None:
            error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        elif session.epoch != request.session_epoch:
            error = ErrorCode.INVALID_FETCH_SESSION_EPOCH
        elif session.uses_ids != (version >= _FIRST_VERSION_WITH_IDS):
            error = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if session is None or error:
            return Fetch(Interest((), now_s), error=error)
        session.advance(now_s)
        session.change(request, version)
        if not session.entries:
            self._end(session.session_id)
            return Fetch(Interest((), now_s))
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return Fetch(session.interest, session, incremental=True)

    def _create(
        self, entries: list[FetchEntry], uses_ids: bool, now_s: float
    ) -> FetchSession | None:
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_s - oldest.used_s < self._evict_after_s:
                return None
            self._end(oldest.session_id)
        session_id = 0
        while not session_id or session_id in self._sessions:
            session_id = 1 + self._randomness.below(2**31 - 2)
        session = FetchSession(session_id, uses_ids, entries, now_s)
        self._sessions[session_id] = session
        return session

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()


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
