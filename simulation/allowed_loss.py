"""What may be lost when a broker loses its page cache or its disk, and who is told about it.

With `min.insync.replicas` of at least 2, one broker at a time may lose what it has not flushed, or
its whole disk, until it is in sync again: nothing acknowledged is lost then. With 1, a lone replica
in sync may be the only one that holds what was acknowledged. What is on no other disk when its own
is replaced is gone; everything else must stay, on some disk at least.
"""

from collections.abc import Callable, Sequence

from odradek.protocol.types import TopicPartition
from simulation.checkers import History
from simulation.cluster_invariants import values_of
from simulation.simulated_broker import SimulatedBroker
from simulation.simulated_cluster import Brokers


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
        # Partitions whose replicas in sync have lost everything: nobody can lead them.
        self.forgiven: dict[TopicPartition, None] = {}

    def may_forget(self, broker: SimulatedBroker) -> bool:
        """Whether it may lose its tail or its disk now; notes that it does."""
        is_healthy = self._brokers.invariants.is_healthy
        for name, one in list(self._lost.items()):
            if one.is_running and is_healthy(one):
                del self._lost[name]
        others = len(self._lost.keys() - {broker.name})
        if self._min_in_sync > 1 and others:
            return False
        self._lost[broker.name] = broker
        return True

    def replace_disk(self, broker: SimulatedBroker) -> None:
        """Its machine goes down and gets an empty disk."""
        broker.power_off()
        broker.host.disk.replace_by_empty("/data")
        others = [other for other in self._brokers.all if other is not broker]
        self._forgive(
            broker,
            lambda topic_partition: set().union(*(values_of(o, topic_partition) for o in others)),
        )

    def power_off(self, broker: SimulatedBroker) -> None:
        """What it had not flushed may be lost, if it was the only one in sync."""
        broker.power_off()
        self._forgive(broker, lambda topic_partition: values_of(broker, topic_partition))

    def _forgive(
        self, broker: SimulatedBroker, kept: Callable[[TopicPartition], set[bytes]]
    ) -> None:
        if self._min_in_sync > 1:
            return
        for topic_partition in self._partitions:
            state = self._brokers.invariants.state_of(topic_partition)
            if state is None:
                continue
            # Where nobody is in sync any more, whatever disk is lost may hold the only copy.
            is_offline = topic_partition in self.forgiven and not state.isr
            if is_offline or broker.node_id in (*state.isr, *state.eligible):
                self.forgive(topic_partition, kept(topic_partition))

    def forgive(self, topic_partition: TopicPartition, kept: set[bytes]) -> None:
        """Of what was acknowledged in a partition only these values are still promised."""
        self._brokers.invariants.forgive(topic_partition)
        self.forgiven[topic_partition] = None
        for send in self._history.sends:
            if send.partition == topic_partition and send.value not in kept:
                send.offset = None
        # Offsets may be given again, so what consumers saw there says nothing any more.
        for (_, partition), polls in self._history.polls.items():
            if partition == topic_partition:
                polls[:] = [None]
