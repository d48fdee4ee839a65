"""What must hold in a cluster at every moment, read from its store and its brokers.

Changes of the store are checked as they happen, replicas at short intervals:

    two leaders      one leader epoch of a partition had two leaders
    epoch fell       a leader epoch went back, or a new leader came without a new epoch
    unclean          a replica was elected that was not in sync, or a leader is not in the set
    no replica       an ISR or the eligible replicas hold a broker that is not in the assignment
    incomplete       a live member of an ISR lacks records that were committed
    went back        the high watermark of a leader fell within its leadership
    misplaced        log start, high watermark and log end are not in this order
    unreplicated     acks=all was answered before enough replicas had the record
    apart            two replicas hold different bytes below the high watermark

What a leader's high watermark has passed is committed. From then on it must be on every live
replica in sync, at the same offset and from the same epoch. The replicas of a compacted topic may
differ, so `compaction_workload` checks those.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile

from odradek.metadata.node_values import (
    NO_LEADER,
    ConfigOverrides,
    PartitionState,
    TopicAssignment,
)
from odradek.metadata.paths import TOPIC_CONFIGS
from odradek.metadata.tree import Tree
from odradek.protocol.internal_topics import INTERNAL_TOPICS
from odradek.protocol.records import Record, decode_records
from odradek.protocol.types import TopicPartition
from odradek.replication.partition import Partition
from simulation.compaction_workload import STATES
from simulation.replica_batches import Batch, batches_in, batches_of, bytes_below
from simulation.simulated_broker import SimulatedBroker
from simulation.stores import Store
from simulation.world import Simulation

_TOPICS = "/brokers/topics/"
_STATE = "/state"
_NO_RETENTION = -1
_COMPACTED = INTERNAL_TOPICS | {STATES}


class InvariantBroken(AssertionError):
    """The rule and the partition it was broken in."""


class Committed:
    """The batches of one partition that were below the high watermark of any leader."""

    __slots__ = ("batches", "high_watermark", "start")

    def __init__(self) -> None:
        self.high_watermark = 0
        # Records below it were deleted. Some replicas hold them for longer than others.
        self.start = 0
        self.batches: list[Batch] = []

    def kept(self) -> list[Batch]:
        return self.from_start(self.batches)

    def from_start(self, batches: list[Batch]) -> list[Batch]:
        if not self.start:
            return batches
        return [batch for batch in batches if batch.next_offset > self.start]


class ClusterInvariants:
    def __init__(
        self,
        simulation: Simulation,
        tree: Tree | Store,
        brokers: Sequence[SimulatedBroker],
        *,
        allows_unclean: bool = False,
    ) -> None:
        """With `allows_unclean` a replica out of sync may be elected, and what was committed
        before counts no longer; `on_unclean` is called with the partition. `on_entry` is called
        with a broker that has entered the ISR of a partition, while the store makes that change."""
        self.checks = 0
        self.on_entry: Callable[[TopicPartition, SimulatedBroker], None] = lambda *_: None
        self.on_unclean: Callable[[TopicPartition], None] = lambda topic_partition: None
        self._allows_unclean = allows_unclean
        self._simulation = simulation
        self._tree = Tree()
        self._brokers = {broker.node_id: broker for broker in brokers}
        self._states: dict[str, PartitionState] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._committed: dict[TopicPartition, Committed] = {}
        # Somebody has asked to delete the records below these offsets.
        self._deletable: dict[TopicPartition, int] = {}
        # The last high watermark of each leadership, by broker, its start, topic, partition, epoch.
        self._high_watermarks: dict[tuple[int, int, bytes, TopicPartition, int], int] = {}
        if isinstance(tree, Tree):
            self.watch(tree)
        else:
            tree.listen(self.watch)

    def watch(self, tree: Tree) -> None:
        """Follows this tree from now on, in place of the last one.

        A store that was killed may have written a change that it told nobody. The store that comes
        after it has read that change, so it is judged here, before the changes that rest on it.
        """
        self._tree = tree
        tree.listen(self._follow)
        self._follow([path for path, state in self._states.items() if self._differs(path, state)])

    def _differs(self, path: str, state: PartitionState) -> bool:
        node = self._tree.get(path)
        return node is not None and PartitionState.decode(path, node.value) != state

    # The store

    def _follow(self, paths: Iterable[str]) -> None:
        """Ends the run through the loop: the broker that made the change calls this."""
        try:
            self.look()
            self._judge_all(paths)
        except InvariantBroken as error:
            self._simulation.loop.fail(str(error), error)

    def _judge_all(self, paths: Iterable[str]) -> None:
        topics: dict[str, None] = {}
        for path in paths:
            if path.startswith(_TOPICS):
                topics[path.split("/")[3]] = None
            if path.startswith(_TOPICS) and path.endswith(_STATE):
                node = self._tree.get(path)
                topic_partition = _partition_of(path)
                if node is None:
                    self._forget(path, topic_partition)
                    continue
                self._judge(path, topic_partition, PartitionState.decode(path, node.value))
        for topic in topics:
            self._require_replicas(topic)

    def _require_replicas(self, topic: str) -> None:
        """Judges what a whole multi left: it may change assignment and states together."""
        path = _TOPICS + topic
        node = self._tree.get(path)
        assigned = () if node is None else TopicAssignment.decode(path, node.value).replicas
        for index, replicas in enumerate(assigned):
            state = self.state_of(TopicPartition(topic, index))
            if state is not None and not {*state.isr, *state.eligible}.issubset(replicas):
                detail = f"{state}, and the replicas are {replicas}"
                raise _broken("no replica", TopicPartition(topic, index), detail)

    def _forget(self, path: str, topic_partition: TopicPartition) -> None:
        self._states.pop(path, None)
        self._committed.pop(topic_partition, None)
        self._deletable.pop(topic_partition, None)
        for key in [key for key in self._leaders if key[0] == path]:
            del self._leaders[key]

    def _judge(self, path: str, topic_partition: TopicPartition, after: PartitionState) -> None:
        self.checks += 1
        before, self._states[path] = self._states.get(path), after
        if after.leader != NO_LEADER:
            leader = self._leaders.setdefault((path, after.leader_epoch), after.leader)
            if leader != after.leader:
                raise _broken("two leaders", topic_partition, f"{leader} and {after}")
            if after.leader not in after.isr:
                raise _broken("unclean", topic_partition, f"{after} leads out of sync")
        if before is not None:
            is_new = after.leader != before.leader
            if after.leader_epoch < before.leader_epoch + is_new:
                raise _broken("epoch fell", topic_partition, f"{before} became {after}")
            if is_new and after.leader not in (NO_LEADER, *_may_be_elected(before)):
                if not self._allows_unclean:
                    raise _broken("unclean", topic_partition, f"{before} became {after}")
                self.forgive(topic_partition)
                self.on_unclean(topic_partition)
        for member in (*after.isr, *after.eligible):
            broker = self._brokers[member]
            if self._is_registered(broker):
                self._require_complete(broker, topic_partition)
            if before is not None and member in after.isr and member not in before.isr:
                self.on_entry(topic_partition, broker)

    def _is_registered(self, broker: SimulatedBroker) -> bool:
        """Whether the process that runs now is registered, not an earlier one."""
        node = self._tree.get(f"/brokers/ids/{broker.node_id}")
        return node is not None and broker.is_running and node.owner == broker.session_id

    def _require_complete(self, broker: SimulatedBroker, topic_partition: TopicPartition) -> None:
        committed = self._committed.get(topic_partition)
        if committed is None or topic_partition.topic in _COMPACTED:
            return
        held = batches_of(broker, topic_partition)
        if held is None:
            return  # Its directory is new, or offline.
        kept, held = committed.kept(), committed.from_start(held)
        kept = kept[self._deleted_on(topic_partition, kept, held) :]
        kept = kept[self._expired_on(broker, topic_partition, kept, held) :]
        for ours, theirs in zip(kept, held, strict=False):
            if ours != theirs:
                raise _broken(
                    "incomplete", topic_partition, f"{broker.name} has {theirs}, not {ours}"
                )
        if len(held) < len(kept):
            raise _broken("incomplete", topic_partition, f"{broker.name} lacks {kept[len(held)]}")

    def may_delete(self, topic_partition: TopicPartition, before: int) -> None:
        """Called before DeleteRecords is sent, because a leader that stops right after it has
        deleted the records is never seen leading with its new log start."""
        self._deletable[topic_partition] = max(self._deletable.get(topic_partition, 0), before)

    def _deleted_on(
        self, topic_partition: TopicPartition, kept: list[Batch], held: list[Batch]
    ) -> int:
        """How many of the first batches that were committed DeleteRecords has taken."""
        first = held[0].base_offset if held else None
        before = self._deletable.get(topic_partition, 0)
        missing = takewhile(lambda batch: batch.base_offset != first, kept)
        return sum(batch.next_offset <= before for batch in missing)

    def _expired_on(
        self,
        broker: SimulatedBroker,
        topic_partition: TopicPartition,
        kept: list[Batch],
        held: list[Batch],
    ) -> int:
        """How many of the first batches that were committed retention has taken on this broker.

        As in Kafka (`LogManager.cleanupLogs`), each replica applies retention by itself, a follower
        perhaps before its leader. Each batch that it lacks must be older than `retention.ms`, or
        have `retention.bytes` behind it: a replica that lacks any other batch has lost it.
        """
        first = held[0].base_offset if held else None
        count = next(
            (number for number, batch in enumerate(kept) if batch.base_offset == first), len(kept)
        )
        path = f"{TOPIC_CONFIGS}/{topic_partition.topic}"
        node = self._tree.get(path)
        if not count or node is None:
            return 0
        overrides = ConfigOverrides.decode(path, node.value).settings
        retention_ms = int(overrides.get("retention.ms", _NO_RETENTION))
        retention_bytes = int(overrides.get("retention.bytes", _NO_RETENTION))
        youngest_ms = broker.host.clock.now_ms() - retention_ms
        bytes_behind = sum(batch.size_bytes for batch in (*kept[1:], *held[len(kept) - count :]))
        for number, batch in enumerate(kept[:count]):
            is_expired = retention_ms >= 0 and batch.max_timestamp < youngest_ms
            if not is_expired and not 0 <= retention_bytes <= bytes_behind:
                return number
            bytes_behind -= kept[number + 1].size_bytes if number + 1 < len(kept) else 0
        return count

    # Brokers

    def look(self) -> None:
        """Looks at every replica of every broker that runs."""
        for broker in self._brokers.values():
            for partition in broker.partitions():
                self._look_at(broker, partition)

    def _look_at(self, broker: SimulatedBroker, partition: Partition) -> None:
        log, mark = partition.log, partition.high_watermark.value
        topic_partition = partition.topic_partition
        start, end = log.log_start_offset, log.log_end_offset
        if not start <= mark <= end:
            ends = f"{start}, {mark}, {end} on {broker.name}"
            raise _broken("misplaced", topic_partition, ends)
        if partition.leadership is None or not log.is_usable:
            return
        if start and topic_partition in self._committed:
            committed = self._committed[topic_partition]
            committed.start = max(committed.start, start)
        key = (
            broker.node_id,
            broker.starts,
            partition.topic_id,
            topic_partition,
            partition.leader_epoch,
        )
        last = self._high_watermarks.get(key, 0)
        if mark < last:
            raise _broken("went back", topic_partition, f"from {last} to {mark} on {broker.name}")
        self._high_watermarks[key] = mark
        if mark > last and self._is_of_this_topic(partition):
            self._commit(broker, topic_partition, mark)

    def _is_of_this_topic(self, partition: Partition) -> bool:
        """Whether it belongs to the present topic, not to a deleted one of the same name."""
        path = _TOPICS + partition.topic_partition.topic
        node = self._tree.get(path)
        return node is not None and _assignment(path, node.value).topic_id == partition.topic_id

    def _commit(self, broker: SimulatedBroker, topic_partition: TopicPartition, mark: int) -> None:
        committed = self._committed.setdefault(topic_partition, Committed())
        if mark <= committed.high_watermark or topic_partition.topic in _COMPACTED:
            return
        committed.batches = committed.kept()
        held = committed.from_start(batches_of(broker, topic_partition) or [])
        known = len(committed.batches)
        if held[:known] != committed.batches:
            raise _broken(
                "incomplete", topic_partition, f"{broker.name} leads without what was committed"
            )
        committed.batches += [batch for batch in held[known:] if batch.next_offset <= mark]
        committed.high_watermark = mark
        state = self.state_of(topic_partition)
        for member in () if state is None else state.isr:
            if member != broker.node_id and self._is_registered(self._brokers[member]):
                self._require_complete(self._brokers[member], topic_partition)

    def store_was_lost(self) -> None:
        """States and leader epochs begin anew. What was committed must still be there."""
        self._states.clear()
        self._leaders.clear()

    def forgive(self, topic_partition: TopicPartition) -> None:
        """Permits the loss of what was committed so far in this partition."""
        self._committed.pop(topic_partition, None)

    def require_replicated(self, topic_partition: TopicPartition, offset: int, least: int) -> None:
        """A record acknowledged with acks=all must be on as many disks as `min.insync.replicas`
        says. For runs in which no disk loses data. The client that was answered calls this, so a
        violation ends the run through the loop."""
        ends = [batches_of(broker, topic_partition) or [] for broker in self._brokers.values()]
        held = sum(bool(batches) and batches[-1].next_offset > offset for batches in ends)
        if held < least:
            error = _broken("unreplicated", topic_partition, f"{offset} is on {held} brokers")
            self._simulation.loop.fail(str(error), error)

    # The end

    def require_equal_replicas(self) -> None:
        """Every replica holds the same bytes up to the leader's high watermark."""
        for path, state in self._states.items():
            topic_partition = _partition_of(path)
            leader = self._brokers[state.leader]
            marks = {p.topic_partition: p.high_watermark.value for p in leader.partitions()}
            if topic_partition not in marks:
                raise _broken(
                    "apart", topic_partition, f"{leader.name} does not hold what it leads"
                )
            expected = bytes_below(leader, topic_partition, marks[topic_partition])
            for member in state.isr:
                found = bytes_below(self._brokers[member], topic_partition, marks[topic_partition])
                if found != expected and topic_partition.topic not in _COMPACTED:
                    raise _broken(
                        "apart", topic_partition, f"broker {member} and its leader {state.leader}"
                    )

    def replicas_in_sync(self, topic_partition: TopicPartition) -> dict[str, list[Record]]:
        """What each of them holds up to the leader's high watermark, by the broker's name."""
        state = self._states[
            f"{_TOPICS}{topic_partition.topic}/partitions/{topic_partition.partition}{_STATE}"
        ]
        leader = self._brokers[state.leader]
        marks = {p.topic_partition: p.high_watermark.value for p in leader.partitions()}
        return {
            broker.name: [
                record
                for data, header in batches_in(broker, topic_partition)
                if header.next_offset <= marks[topic_partition] and not header.is_control
                for record in decode_records(data)
            ]
            for broker in (self._brokers[member] for member in state.isr)
        }

    def state_of(self, topic_partition: TopicPartition) -> PartitionState | None:
        return self._states.get(
            f"{_TOPICS}{topic_partition.topic}/partitions/{topic_partition.partition}{_STATE}"
        )

    @property
    def states(self) -> Mapping[str, PartitionState]:
        return self._states

    def replicas_of(self, path: str) -> tuple[int, ...]:
        topic_partition = _partition_of(path)
        topic = _TOPICS + topic_partition.topic
        node = self._tree.get(topic)
        if node is None:
            return ()
        return _assignment(topic, node.value).replicas[topic_partition.partition]

    def is_healthy(self, broker: SimulatedBroker) -> bool:
        """Whether the broker is registered and in sync in every partition of which it has a
        replica."""
        if not self._is_registered(broker):
            return False
        return all(
            broker.node_id in state.isr
            for path, state in self._states.items()
            if broker.node_id in self.replicas_of(path)
        )


@lru_cache(maxsize=256)
def _assignment(path: str, value: bytes) -> TopicAssignment:
    """The assignment in a node of the store, which is asked for whenever a replica has moved on."""
    return TopicAssignment.decode(path, value)


def _may_be_elected(before: PartitionState) -> tuple[int, ...]:
    return (*before.isr, *before.eligible)


def _partition_of(path: str) -> TopicPartition:
    topic, _, partition = path.removeprefix(_TOPICS).removesuffix(_STATE).partition("/partitions/")
    return TopicPartition(topic, int(partition))


def _broken(rule: str, topic_partition: TopicPartition, detail: str) -> InvariantBroken:
    return InvariantBroken(
        f"{rule} in {topic_partition.topic}-{topic_partition.partition}: {detail}"
    )
