"""Incremental fetch sessions (KIP-227): a consumer of many partitions names only what changes.

A session remembers which partitions a client fetches and what it was told last, so a request
carries the changes and a response only the partitions with something new. Sessions live in a
cache that is bounded twice: by their number (`max.incremental.fetch.session.cache.slots`) and by
the partitions that all of them hold, because a request may name tens of thousands. A client whose
session was removed gets an error and sends a full request again. If the cache has no room, the
client gets no session, and names all its partitions in each request.

A client need not log in to fetch, and can name any number of partitions that do not exist. So a
session holds few of those: only as many as a client or a follower may know before this broker does.

    request (session id, epoch)    meaning
    (0, -1)                        full request, without a session
    (0, 0)                         full request, begin a session
    (id, 0)                        full request, replace that session
    (id, -1)                       full request, end that session
    (id, n > 0)                    incremental request: the changes since request n - 1
"""

from collections.abc import Callable, Iterable
from typing import Final

from odradek.broker.fetching.due_partitions import DuePartitions, FetchEntry, Key
from odradek.broker.fetching.fetch_lifecycle import Fetch
from odradek.invariants import InvariantViolation, is_thorough
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.fetch import FetchRequest, FetchTopic
from odradek.protocol.types import NO_OFFSET, NO_TOPIC_ID, TopicId
from odradek.world import Randomness

_FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1
_FIRST_VERSION_WITH_IDS: Final = FetchTopic.first_version_with("topic_id")
# The memory of one partition of a session, measured: its entry, and its places in the session.
PARTITION_BYTES: Final = 400
# How many partitions of a session may be unknown to this broker.
_MAX_UNKNOWN: Final = 1000


class FetchSession:
    """The partitions that a client fetches, kept from one of its requests to the next."""

    __slots__ = (
        "due",
        "entries",
        "epoch",
        "replica_epoch",
        "session_id",
        "unknown",
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
        # How many of the partitions this broker did not know when they were named.
        self.unknown = 0
        # The broker epoch of the follower that fetches, if a follower does.
        self.replica_epoch = -1
        self.entries = {entry.key: entry for entry in entries}
        self.due = DuePartitions(self.entries.values(), now_s)

    def begin_next(self, now_s: float) -> Fetch:
        """Begins the next fetch. Called for a request that continues the session."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1
        self.used_s = self.due.requested_s = now_s
        if self.due.supersede():
            self.reset()
        return Fetch(self.due, self, is_incremental=True)

    def change(self, request: FetchRequest, version: int) -> list[FetchEntry]:
        """Applies the changes of a request; returns the partitions that are new."""
        entries = self.entries
        added = []
        for changed in read_entries(request, version, entries):
            if changed.key not in entries:
                added.append(changed)
            entries[changed.key] = changed
            self.due.add(changed)
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if self.uses_ids else forgotten.topic
            for partition in forgotten.partitions:
                entry = entries.pop((name, partition), None)
                if entry is not None:
                    self.due.remove(entry)
        return added

    def mark_all_due(self) -> None:
        """Makes every partition due, also those that are idle."""
        self.due.put_back(self.entries.values())

    def reset(self) -> None:
        """Makes the next fetch read all partitions, and name all of them in its response. Called
        when a fetch ends early: it has taken partitions that are due, and it is not known whether
        the client got its response."""
        for entry in self.entries.values():
            entry.last_sent_high_watermark = entry.last_sent_log_start = NO_OFFSET
        self.mark_all_due()

    def close(self) -> None:
        """Ends the session, and its current fetch, if there is one."""
        self.due.supersede()
        for entry in self.entries.values():
            self.due.remove(entry)
        self.entries = {}

    def check(self) -> None:
        """Raises `InvariantViolation` if a partition is neither due nor registered. Called between
        two fetches, only in tests and simulations, because it looks at every partition."""
        for entry in self.entries.values():
            if entry not in self.due and not entry.is_registered:
                raise InvariantViolation(
                    f"fetch session {self.session_id}",
                    f"the partition {entry.key} is neither due nor registered with a watermark",
                )


class FetchSessions:
    """A bounded cache of sessions. The least recently used session makes room for another one if it
    has been idle long enough.

    Invariant: `partitions` is the number of partitions that the sessions hold together, and after
    each request at most `max_partitions`.
    """

    def __init__(
        self,
        slots: int,
        randomness: Randomness,
        *,
        max_partitions: int,
        is_known: Callable[[FetchEntry], bool],
        evict_after_s: float = 120.0,
    ) -> None:
        """`is_known` returns whether a partition exists as far as this broker knows."""
        self._slots = slots
        self._max_partitions = max_partitions
        self._is_known = is_known
        self.partitions = 0
        self._randomness = randomness
        self._evict_after_s = evict_after_s
        # In the order of use, the least recently used session first.
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        request: FetchRequest,
        version: int,
        now_s: float,
        entries: list[FetchEntry] | None = None,
    ) -> Fetch:
        """Returns the fetch that serves a request, with its session if it has one. `entries` are
        those of a full request, if they have been made already (`read_entries`)."""
        session_id, epoch = request.session_id, request.session_epoch
        if epoch > 0:
            return self._continue(request, version, now_s)
        if session_id:
            self._end(session_id)
        if entries is None:
            entries = list(read_entries(request, version, {}))
        if epoch != _FINAL_EPOCH and entries:
            session = self._create(entries, version >= _FIRST_VERSION_WITH_IDS, now_s)
            if session is not None:
                return Fetch(session.due, session)
        return Fetch(DuePartitions(entries, now_s))

    def skip(self, request: FetchRequest, version: int, now_s: float) -> Fetch:
        """Returns a fetch that is to be answered without any partition, because a quota of its
        client is used up. A session goes on with the next request, in which nothing is lost. A full
        request gets no session: the client takes an empty answer for none, and sends it again."""
        if request.session_epoch > 0:
            return self._continue(request, version, now_s)
        if request.session_id:
            self._end(request.session_id)
        return Fetch(DuePartitions((), now_s))

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
            return Fetch(DuePartitions((), now_s), error=error)
        fetch = session.begin_next(now_s)
        if not self._change(session, request, version, now_s):
            self._end(session.session_id)
            return Fetch(DuePartitions((), now_s), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.entries:
            self._end(session.session_id)
            return Fetch(DuePartitions((), now_s))
        return fetch

    def _change(
        self, session: FetchSession, request: FetchRequest, version: int, now_s: float
    ) -> bool:
        """Applies the changes of a request to a session. Returns False if the session would get too
        large: then it must be ended."""
        held = len(session.entries)
        added = session.change(request, version)
        self.partitions += len(session.entries) - held
        session.unknown += self._count_unknown(added)
        if session.unknown > _MAX_UNKNOWN:
            return False
        # This session was used just now, so it does not make room.
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return self._make_room(self._slots, self._max_partitions, now_s)

    def _count_unknown(self, entries: Iterable[FetchEntry]) -> int:
        return sum(not self._is_known(entry) for entry in entries)

    def _make_room(self, slots: int, partitions: int, now_s: float) -> bool:
        """Ends idle sessions until at most this number of slots and partitions is used. Returns
        whether that was possible."""
        while len(self._sessions) > slots or self.partitions > partitions:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_s - oldest.used_s < self._evict_after_s:
                return False
            self._end(oldest.session_id)
        return True

    def _create(
        self, entries: list[FetchEntry], uses_ids: bool, now_s: float
    ) -> FetchSession | None:
        unknown = self._count_unknown(entries)
        if unknown > _MAX_UNKNOWN or not self._make_room(
            self._slots - 1, self._max_partitions - len(entries), now_s
        ):
            return None
        session_id = 0
        while not session_id or session_id in self._sessions:
            session_id = 1 + self._randomness.integer_below(2**31 - 2)
        session = FetchSession(session_id, uses_ids, entries, now_s)
        session.unknown = unknown
        self._sessions[session_id] = session
        self.partitions += len(session.entries)
        self.check()
        return session

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions -= len(session.entries)
            session.close()
            self.check()

    def check(self) -> None:
        """Raises `InvariantViolation` if the count of partitions is wrong. Called when a session
        begins or ends."""
        if self.partitions < 0:
            raise InvariantViolation("fetch sessions", f"partitions ({self.partitions}) >= 0")
        if is_thorough():
            held = sum(len(session.entries) for session in self._sessions.values())
            if held != self.partitions:
                raise InvariantViolation(
                    "fetch sessions",
                    f"partitions ({self.partitions}) is what the sessions hold ({held})",
                )


def read_entries(
    request: FetchRequest, version: int, known: dict[Key, FetchEntry]
) -> Iterable[FetchEntry]:
    """Yields the partitions that a request names: new entries, or `known` entries with the offset
    and the limits of the request."""
    uses_ids = version >= _FIRST_VERSION_WITH_IDS
    for topic in request.topics:
        name: str | TopicId = topic.topic_id if uses_ids else topic.topic
        for partition_request in topic.partitions:
            entry = known.get((name, partition_request.partition))
            if entry is None:
                entry = (
                    FetchEntry("", TopicId(topic.topic_id), partition_request.partition)
                    if uses_ids
                    else FetchEntry(topic.topic, NO_TOPIC_ID, partition_request.partition)
                )
            entry.fetch_offset = partition_request.fetch_offset
            entry.max_bytes = partition_request.partition_max_bytes
            entry.current_leader_epoch = partition_request.current_leader_epoch
            entry.last_fetched_epoch = partition_request.last_fetched_epoch
            entry.log_start_offset = partition_request.log_start_offset
            yield entry
