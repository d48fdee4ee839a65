"""Planted bugs that production code once had; see `planted_bugs`.

Storage and replication:

    trust-stale-epochs        recovery believes an old leader-epoch-checkpoint, not the records
    excuse-holes              recovery takes a hole in a compacted log for the work of compaction
    keep-a-log-start          the log start of a deleted topic counts for the next of its name
    lead-with-an-empty-log    the last replica in sync leads although its disk was replaced
    die-without-descriptors   an error of the disk during the retention check ends the broker
    take-nonsense             only the header of a batch is validated
    never-make-it-again       a log that could not be made is not tried again
    no-leader-lease           a broker whose session has expired still leads
    outrun-a-lease            a leader commits without the one before it, which still has its lease
    renew-unread              a new connection renews a lease before the changes missed are read
    ignore-broker-epochs      a follower counts though its broker has started anew since (KIP-903)
    keep-the-broker-epoch     a broker that comes back registers under its last epoch
    ignore-the-proposal       the high watermark does not wait for a follower that is being let in
    settle-unread             a leader settles a stored ISR before its image shows the new members
    forget-producers          compaction drops the last batch of a producer
    forget-the-absent         compaction drops tombstones while a replica is away that lacks them

Metadata:

    ordinary-internal-topics  a client that asks for an internal topic creates an ordinary one
    forget-producer-ids       producer ids begin anew when the metadata store was lost
    overwrite-settings        a change of a setting overwrites what others changed meanwhile
    show-by-id                a request by topic id is answered without asking the authorizer

Coordinators:

    forget-the-next-id        a producer id that EndTxn told is unknown until markers are written
    fence-by-one-epoch        a fenced producer's EndTxn passes for a repetition
    tell-unstable-offsets     positions that an open transaction is about to change are told
    name-itself-leader        a broker past its session names itself in Metadata
    coordinate-without-lease  a coordinator past its session answers from memory
    wait-for-slow-followers   replies wait for everything before them, without a limit
"""

from dataclasses import replace
from typing import Any
from weakref import WeakSet

from odradek.broker import components, joining_cluster, log_adoption
from odradek.broker.client_metadata import ClientMetadata
from odradek.broker.handlers import metadata as metadata_handler
from odradek.cluster import internal_topics, topics
from odradek.cluster.configs import Configs, _validated
from odradek.cluster.elections import LogCondition
from odradek.cluster.membership import Membership
from odradek.cluster.replaced_disks import ReplacedDisks
from odradek.groups.offsets import Offsets
from odradek.metadata import MetadataCache
from odradek.metadata.compare_and_set import attempt, change_node
from odradek.metadata.memory import MemorySession
from odradek.metadata.node_values import ConfigOverrides
from odradek.metadata.paths import broker_path
from odradek.metadata.session_life import SessionLife
from odradek.metadata.store import ANY_VERSION, Check, Create
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import BrokerId, Offset, ProducerEpoch
from odradek.replication import isr_changes
from odradek.replication.coordinator_partitions import CoordinatorPartitions
from odradek.replication.isr_changes import IsrChanges
from odradek.replication.leadership import UNKNOWN_BROKER_EPOCH, Leadership
from odradek.replication.log_creation_retries import LogCreationRetries
from odradek.replication.partition_log import PartitionLog
from odradek.replication.replicas import Replicas
from odradek.statemachine.runner import Runner
from odradek.storage import StorageError, validation
from odradek.storage.compaction.rewriting import Compaction
from odradek.storage.leader_epochs import LeaderEpochs
from odradek.storage.log import Log
from odradek.storage.recovery import LogLoader
from odradek.storage.segment_recovery import RecoveredState
from odradek.transactions import identity_checks, machine
from odradek.transactions.transaction import LAST_EPOCH, Transaction

Patch = tuple[object, str, Any]

# Storage and replication


def trust_stale_epochs() -> list[Patch]:
    read_epochs = LogLoader._read_epochs
    stale: list[LeaderEpochs] = [LeaderEpochs()]

    def read_and_remember(self: LogLoader) -> LeaderEpochs:
        stale[0] = read_epochs(self)
        return read_epochs(self)

    def is_outdated(self: RecoveredState, header: Any) -> bool:
        epochs = stale[0]
        epoch = int(header.leader_epoch)
        return 0 <= epoch < epochs.latest and epoch < epochs.epoch_for(header.base_offset)

    return [
        (LogLoader, "_read_epochs", read_and_remember),
        (RecoveredState, "is_outdated", is_outdated),
    ]


def excuse_holes() -> list[Patch]:
    lacks_records = LogLoader._lacks_records

    def unless_compacted(self: LogLoader, *arguments: Any) -> bool:
        return not self._settings.is_compacted and lacks_records(self, *arguments)

    return [(LogLoader, "_lacks_records", unless_compacted)]


def keep_a_log_start() -> list[Patch]:
    advance, load = Log.advance_log_start, LogLoader.load
    starts: dict[tuple[object, str], int] = {}

    def advance_and_remember(log: Log, offset: Offset) -> None:
        advance(log, offset)
        starts[log.directory.disk, log.path] = log.log_start_offset

    def load_with_it(self: LogLoader, **offsets: Any) -> Log:
        known = starts.get((self._disk, self._path), 0)
        offsets["log_start_offset"] = max(offsets["log_start_offset"], known)
        return load(self, **offsets)

    return [(Log, "advance_log_start", advance_and_remember), (LogLoader, "load", load_with_it)]


def lead_with_an_empty_log() -> list[Patch]:
    return [(ReplacedDisks, "is_lost", lambda *_: False)]


def die_without_descriptors() -> list[Patch]:
    delete_old = Log.delete_old_segments

    def delete_unguarded(self: Log, *arguments: Any) -> Any:
        try:
            return delete_old(self, *arguments)
        except StorageError as error:
            raise error.__cause__ or error from None

    return [(Log, "delete_old_segments", delete_unguarded)]


def take_nonsense() -> list[Patch]:
    return [(validation, "check_sample", lambda *_: None)]


def never_make_it_again() -> list[Patch]:
    return [(LogCreationRetries, "add", lambda *_: None)]


def no_leader_lease() -> list[Patch]:
    return [
        (Replicas, "is_leased", True),
        (Replicas, "_require_lease", lambda *_: None),
    ]


def outrun_a_lease() -> list[Patch]:
    return [(IsrChanges, "_max_lease_s", lambda *_: 0.0)]


def renew_unread() -> list[Patch]:
    reconnect = MemorySession.reconnect

    def reconnect_and_renew(self: MemorySession) -> None:
        reconnect(self)
        self.note_all_read(self.resumptions)

    def never_resumed(self: SessionLife, *, is_resumed: bool) -> None:
        """Every answer counts."""

    return [
        (MemorySession, "reconnect", reconnect_and_renew),
        (SessionLife, "connect", never_resumed),
    ]


def forget_the_absent() -> list[Patch]:
    return [(Replicas, "_is_on_every_replica", lambda *_: True)]


def ignore_broker_epochs() -> list[Patch]:
    fetched, wanted = Leadership.note_fetch, Leadership.next_in_sync

    def fetched_by_anyone(self: Leadership, replica: BrokerId, *progress: Any, **more: Any) -> None:
        known = self.followers[replica].broker_epoch
        if known != UNKNOWN_BROKER_EPOCH:
            more["broker_epoch"] = known
        fetched(self, replica, *progress, **more)

    def wanted_of_any_epoch(
        self: Leadership, mark: Offset, end: Offset, alive: Any, **more: Any
    ) -> Any:
        any_epoch = {
            replica: self.followers[replica].broker_epoch if replica in self.followers else epoch
            for replica, epoch in alive.items()
        }
        return wanted(self, mark, end, any_epoch, **more)

    def check_nothing(path: str, version: int) -> Check:
        return Check(path, ANY_VERSION)

    return [
        (Leadership, "note_fetch", fetched_by_anyone),
        (Leadership, "next_in_sync", wanted_of_any_epoch),
        (isr_changes, "Check", check_nothing),
    ]


def keep_the_broker_epoch() -> list[Patch]:
    register = Membership._register

    async def register_again(self: Membership, since: int | None, condition: LogCondition) -> int:
        last = await self._last_epoch()
        if last < 0:
            return await register(self, since, condition)
        self._logs.note_run(last, last)
        registration = self._describe(last).encode()
        await attempt(self._cache, Create(broker_path(self._id), registration, ephemeral=True))
        return last

    async def pass_nothing(self: Membership, since: int | None) -> None: ...

    return [
        (Membership, "_register", register_again),
        (Membership, "_bump_epoch", pass_nothing),
    ]


def ignore_the_proposal() -> list[Patch]:
    def choose(self: Leadership) -> None:
        self._waiting_for = tuple(
            follower for replica, follower in self.followers.items() if replica in self.in_sync
        )

    return [(Leadership, "_update_waiting_for", choose)]


def settle_unread() -> list[Patch]:
    read_back = IsrChanges._read_back
    # The caches whose last change was stored. What comes next is the read after a success.
    stored: WeakSet[MetadataCache] = WeakSet()

    async def attempt_and_note(cache: MetadataCache, *operations: Any) -> Any:
        stored.discard(cache)
        results = await attempt(cache, *operations)
        stored.add(cache)
        return results

    async def read_after_failures(self: IsrChanges, *arguments: Any) -> None:
        if self._cache not in stored:
            await read_back(self, *arguments)

    return [
        (isr_changes, "attempt", attempt_and_note),
        (IsrChanges, "_read_back", read_after_failures),
    ]


def forget_producers() -> list[Patch]:
    def stays(self: Compaction, header: Any) -> bool:
        return bool(header.next_offset == self._job.end_offset)

    return [(Compaction, "_must_stay", stays)]


# Metadata


def ordinary_internal_topics() -> list[Patch]:
    async def repair_nothing(*_: Any) -> None: ...

    return [
        (topics, "INTERNAL_TOPICS", frozenset()),
        (internal_topics, "repair", repair_nothing),
        (joining_cluster, "repair", repair_nothing),
    ]


def forget_producer_ids() -> list[Patch]:
    def nothing_seen(logs: Any) -> int:
        return -1

    return [(components, "highest_id", nothing_seen), (log_adoption, "highest_id", nothing_seen)]


def overwrite_settings() -> list[Patch]:
    async def overwrite(
        self: Configs, path: str, change: Any, known: Any, *, requires: str = ""
    ) -> None:
        after = ConfigOverrides(_validated(change, known)).encode()
        await change_node(self._cache, path, lambda _: after)

    return [(Configs, "_change", overwrite)]


def show_by_id() -> list[Patch]:
    may_look = metadata_handler._may_look

    def may_look_by_name(services: Any, context: Any, request: Any, topic: Any) -> bool:
        if topic.name is None:
            return may_look(services, context, request, topic)
        return bool(context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic.name))

    return [
        (metadata_handler, "_may_look", may_look_by_name),
        (metadata_handler, "_hide_if_denied", lambda context, asked, answered: answered),
    ]


# Coordinators


def forget_the_next_id() -> list[Patch]:
    def check(current: Any, producer_id: int, producer_epoch: int) -> ErrorCode:
        if current is None or current.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if current.producer_epoch != producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.NONE

    return [(machine, "check_identity", check), (identity_checks, "check_identity", check)]


def fence_by_one_epoch() -> list[Patch]:
    fenced = Transaction.fenced

    def fenced_by_one(self: Transaction, now_ms: int, *, by_holder: bool) -> Transaction:
        return fenced(self, now_ms, by_holder=by_holder)._replace(
            producer_epoch=ProducerEpoch(min(self.producer_epoch + 1, LAST_EPOCH))
        )

    def repeats_end(current: Transaction, command: Any) -> bool:
        return bool(
            current.producer_id == command.producer_id
            and current.producer_epoch == command.producer_epoch + 1
        )

    return [
        (Transaction, "fenced", fenced_by_one),
        (machine, "repeats_end", repeats_end),
    ]


def tell_unstable_offsets() -> list[Patch]:
    fetch = Offsets.fetch

    def fetch_any(self: Offsets, query: Any) -> Any:
        return fetch(self, replace(query, require_stable=False))

    return [(Offsets, "fetch", fetch_any)]


def name_itself_leader() -> list[Patch]:
    return [(ClientMetadata, "_visible", lambda self, image: image)]


def coordinate_without_lease() -> list[Patch]:
    """Only answers from memory: what is written is refused as it is without the bug. A coordinator
    that also wrote would lose its state when those that wait for replicas are sent away."""

    def runner(self: Any, partition: int) -> Any:
        kept = self._coordinators.get(partition)
        if kept is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if not kept.is_loaded:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return kept.runner

    def refusal(self: PartitionLog) -> Exception | None:
        return None if self._is_led() else ApiError(ErrorCode.NOT_COORDINATOR)

    return [
        (CoordinatorPartitions, "_runner", runner),
        (CoordinatorPartitions, "machines", CoordinatorPartitions._loaded_machines),
        (PartitionLog, "refusal", refusal),
    ]


def wait_for_slow_followers() -> list[Patch]:
    begin = Runner.__init__

    def begin_without_limit(
        self: Any, machine: Any, log: Any, clock: Any, limit: Any = None, **more: Any
    ) -> None:
        begin(self, machine, log, clock, **more)

    def note_for_everybody(self: Any, subjects: Any, end_offset: int) -> None:
        self._unattributed = end_offset

    return [
        (Runner, "__init__", begin_without_limit),
        (Runner, "_note_written", note_for_everybody),
    ]
