"""Which acknowledged records may be lost when a broker loses its page cache or its disk.

With `min.insync.replicas` of at least 2, one broker at a time may lose what it has not flushed, or
its whole disk, until it is in sync again: nothing acknowledged is lost then. With 1, a lone replica
in sync may be the only one that holds what was acknowledged. What is on no other disk when its own
is replaced is gone; everything else must stay, on some disk at least.
"""

from collections.abc import Callable, Iterable, Sequence

from odradek.protocol.types import TopicPartition
from simulation.checkers import History, Violation
from simulation.replica_batches import values_of
from simulation.simulated_broker import SimulatedBroker
from simulation.simulated_cluster import Brokers
from simulation.verdicts import require_no_violations


class AllowedLoss:
    def __init__(
        self,
        brokers: Brokers,
        history: History,
        partitions: Sequence[TopicPartition],
        min_in_sync: int,
    ) -> None:
        self._brokers = brokers
        self._history = history
        self._partitions = partitions
        self._min_in_sync = min_in_sync
        self._lost: dict[str, SimulatedBroker] = {}
        # Those of them that lost the whole disk. The store still names them as in sync until they
        # start without their logs.
        self._emptied: set[int] = set()
        # Partitions of which acknowledged records were lost: without an in-sync replica they have
        # no leader.
        self.forgiven: dict[TopicPartition, None] = {}

    def may_forget(self, broker: SimulatedBroker) -> bool:
        """Returns whether the broker may lose its tail or its disk now, and notes that it does."""
        is_healthy = self._brokers.invariants.is_healthy
        for name, one in list(self._lost.items()):
            if one.is_running and is_healthy(one):
                del self._lost[name]
                self._emptied.discard(one.node_id)
        others = len(self._lost.keys() - {broker.name})
        if self._min_in_sync > 1 and others:
            return False
        self._lost[broker.name] = broker
        return True

    def replace_disk(self, broker: SimulatedBroker) -> None:
        """Powers the broker off and gives it an empty disk."""
        broker.power_off()
        broker.host.disk.replace_by_empty("/data")
        self._emptied.add(broker.node_id)
        others = [other for other in self._brokers.all if other is not broker]
        self._forgive(
            broker,
            lambda topic_partition: set().union(*(values_of(o, topic_partition) for o in others)),
        )

    def power_off(self, broker: SimulatedBroker) -> None:
        """Powers the broker off. If it alone was in sync, unflushed records may be lost."""
        broker.power_off()
        self._forgive(broker, lambda topic_partition: values_of(broker, topic_partition))

    def _forgive(
        self, broker: SimulatedBroker, kept: Callable[[TopicPartition], set[bytes]]
    ) -> None:
        for topic_partition in self._partitions:
            state = self._brokers.invariants.state_of(topic_partition)
            if state is None:
                continue
            # An unclean election may leave one replica that has the records, whatever
            # min.insync.replicas says, until another one has fetched them.
            is_alone = {broker.node_id} == {*state.isr, *state.eligible}
            if self._min_in_sync > 1 and not (is_alone and topic_partition in self.forgiven):
                continue
            # Without a replica in sync that has its disk, any other may hold the only copy.
            is_offline = topic_partition in self.forgiven and self._emptied.issuperset(state.isr)
            if is_offline or broker.node_id in (*state.isr, *state.eligible):
                self.forgive(topic_partition, kept(topic_partition))

    def forgive(self, topic_partition: TopicPartition, kept: set[bytes]) -> None:
        """From now on only these values of the partition must be there."""
        self._brokers.invariants.forgive(topic_partition)
        self.forgiven[topic_partition] = None
        for send in self._history.sends:
            if send.partition == topic_partition and send.value not in kept:
                send.offset = None
        # Offsets may be given to other records now, so earlier polls are not compared any more.
        for (_, partition), polls in self._history.polls.items():
            if partition == topic_partition:
                polls[:] = [None]

    def require_kept(self, partitions: Iterable[TopicPartition]) -> None:
        """Raises an anomaly if an acknowledged record, which must be kept, is on no disk."""
        found = []
        for topic_partition in partitions:
            on_disks = set[bytes]().union(
                *(values_of(broker, topic_partition) for broker in self._brokers.all)
            )
            found += [
                Violation(
                    "destroyed", topic_partition, f"{send.value!r} was on a disk, and is on none"
                )
                for send in self._history.sends
                if send.partition == topic_partition
                and send.offset is not None
                and send.value not in on_disks
            ]
        require_no_violations(found)

    def forgive_other_offsets(self, partitions: Iterable[TopicPartition]) -> None:
        """Lets records stand at other offsets where an operator had to elect an unclean leader.

        Such a leader may hold a record from an attempt that was never acknowledged, at another
        offset than the acknowledged attempt got on the disk that was lost. It must be there.
        """
        for topic_partition in partitions:
            offsets = {value: offset for offset, value in self._history.final[topic_partition]}
            for send in self._history.sends:
                if send.partition == topic_partition and send.offset is not None:
                    send.offset = offsets.get(send.value, send.offset)
