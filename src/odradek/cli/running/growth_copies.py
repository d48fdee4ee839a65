"""Gives every topic of a cluster that has grown its copies on the new brokers: the last part of
`odradek local grow`.

Some topics at a time, the internal ones first:

1. If the topic requires more than one in-sync replica (`min.insync.replicas`), that is set to 1 for
   now, after its own value was written down in grow.json. A partition with three replicas of which
   one is in sync yet would refuse producers with acks=all otherwise.
2. Its partitions are reassigned: the replica that exists stays, and new ones are added. Their rate
   is limited (`throttle`). The limit is raised if the copies do not catch up with the producers.
3. When all replicas of the topic are in sync, it gets its own `min.insync.replicas` back. So
   acks=all never waits for a replica that does not exist, and means two as soon as there are.

At the end the limits are lifted, and the preferred leaders are elected, which spreads the load over
all brokers. Everything is read from the brokers and from grow.json, so the work goes on after a
crash at any point.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from odradek.cli.quantities import shown_bytes, shown_seconds
from odradek.cli.replicas.reassign_actions import ReassignmentAdmin
from odradek.cli.replicas.replica_plans import Plan, spread
from odradek.cli.replicas.throttles import change_rates, lift_throttles, throttle
from odradek.client.admin.config_types import ConfigChange, ConfigResource, ConfigSource, ConfigType
from odradek.client.admin.partitions import ElectionType
from odradek.client.cluster_view import Broker, Partition, Topic
from odradek.client.errors import ClientError
from odradek.config.operation import ConfigOperation
from odradek.local.growth import Growth
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.protocol.internal_topics import INTERNAL_TOPICS, TRANSACTIONS
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import checked
from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import Progress
from odradek.wording import counted
from odradek.world.disk import OsDisk

_MIN_IN_SYNC: Final = "min.insync.replicas"
_LOOK_AGAIN_S: Final = 0.1
# A broker that is missing for longer is not just restarting.
_MISSING_S: Final = 5.0
# How long the copies may come no nearer to the leaders before the limit is raised.
_STALLED_S: Final = 10.0
# The same without a limit, before the command gives up.
_STUCK_S: Final = 60.0
_MEASURE_S: Final = 1.0
# Bytes a second that no disk of a laptop takes.
_HIGHEST_RATE: Final = 1_000_000_000
# Small topics are reassigned together.
_BATCH_PARTITIONS: Final = 50
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)

Say = Callable[[str], None]


class Copies:
    """The work on one cluster; `run` does all of it."""

    def __init__(self, admin: ReassignmentAdmin, growth: Growth, rate: int, say: Say) -> None:
        """`rate` is in bytes a second; -1 means no limit."""
        self._admin = admin
        self._growth = growth
        self._rate = rate
        self._say = say
        self._disk = OsDisk()

    async def run(self) -> tuple[int, int]:
        """Returns how many topics and partitions have their copies now."""
        await self._set_rate()
        while True:
            topics = await self._topics()
            lacking = [topic for topic in topics.values() if not self._is_complete(topic)]
            if not lacking and not self._growth.lowered:
                break
            for batch in batches(lacking):
                await self._add_copies(batch)
            # Topics that an earlier run has lowered, and that are complete or deleted now.
            await self._restore(
                name
                for name in list(self._growth.lowered)
                if name not in topics or self._is_complete(topics[name])
            )
        await self._finish(topics)
        return len(topics), sum(len(topic.partitions) for topic in topics.values())

    async def _set_rate(self) -> None:
        """Sets the limit for what an earlier run has begun, perhaps with another limit."""
        brokers = await self._live_brokers()
        if self._rate >= 0:
            await change_rates(self._admin, [int(broker.id) for broker in brokers], self._rate)
        else:
            await lift_throttles(self._admin, await self._topics())

    async def _topics(self) -> dict[str, Topic]:
        return await self._admin.list_topics(include_internal=True)

    def _is_complete(self, topic: Topic) -> bool:
        """Returns whether all partitions have their replicas, all of them in sync."""
        return all(map(self._is_replicated, topic.partitions.values()))

    def _is_replicated(self, partition: Partition) -> bool:
        return len(partition.replicas) >= self._growth.copies and (
            set(partition.in_sync) >= set(partition.replicas)
        )

    # Some topics

    async def _add_copies(self, names: list[str]) -> None:
        clock_s = asyncio.get_running_loop().time
        began_s = clock_s()
        await self._lower(names)
        await self._reassign(names)
        await self._wait_until_in_sync(names)
        await self._restore(names)
        took = shown_seconds(clock_s() - began_s)
        topics, sizes = await self._topics(), await self._sizes(names)
        for name in names:
            if name in topics:
                size = sum(max(sizes[part]) for part in sizes if part.topic == name)
                count = counted(len(topics[name].partitions), "partition has", "partitions have")
                self._say(
                    f"{name}: {count} {self._growth.copies} copies in sync"
                    f" ({shown_bytes(size)} each, {took})"
                )

    async def _lower(self, names: list[str]) -> None:
        """Step 1. What the topics themselves had is written down first."""
        resources = [
            ConfigResource(ConfigType.TOPIC, name)
            for name in names
            if name not in self._growth.lowered
        ]
        answers = await self._admin.describe_configs(resources, [_MIN_IN_SYNC])
        for resource, answer in answers.items():
            if isinstance(answer, KafkaError):
                continue  # it was deleted
            entry = answer[_MIN_IN_SYNC]
            if entry.value != "1":
                is_own = entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
                self._growth.lowered[resource.name] = entry.value if is_own else None
        lowered = self._growth.lowered.keys() & set(names)
        if lowered:
            self._growth.write(self._disk)
            await self._set_min_in_sync(dict.fromkeys(sorted(lowered), "1"))

    async def _restore(self, names: Iterable[str]) -> None:
        """Step 3."""
        names = list(names)
        values = {
            name: self._growth.lowered[name] for name in names if name in self._growth.lowered
        }
        raised = dict(values)
        if TRANSACTIONS in names and self._growth.min_in_sync > 1:
            # As if the cluster had created the topic (transaction.state.log.min.isr).
            raised[TRANSACTIONS] = str(self._growth.min_in_sync)
        await self._set_min_in_sync(raised)
        if values:
            for name in values:
                del self._growth.lowered[name]
            self._growth.write(self._disk)

    async def _set_min_in_sync(self, values: Mapping[str, str | None]) -> None:
        """Sets `min.insync.replicas` of topics; None removes it."""
        changes = {
            ConfigResource(ConfigType.TOPIC, name): [
                ConfigChange(
                    _MIN_IN_SYNC,
                    value,
                    ConfigOperation.DELETE if value is None else ConfigOperation.SET,
                )
            ]
            for name, value in values.items()
        }
        if changes:
            answers = await self._admin.incremental_alter_configs(changes)
            checked({key: answer for key, answer in answers.items() if not _is_gone(answer)})

    async def _reassign(self, names: list[str]) -> None:
        """Step 2: starts what is not under way yet."""
        topics = await self._topics()
        moving = await self._admin.list_partition_reassignments()
        brokers = {int(broker.id): broker.rack for broker in await self._live_brokers()}
        current: Plan = {
            TopicPartition(name, partition.index): list(map(int, partition.replicas))
            for name in names
            if name in topics
            for partition in topics[name].partitions.values()
        }
        lacking = {
            partition: replicas
            for partition, replicas in current.items()
            if partition not in moving and len(replicas) < self._growth.copies
        }
        if not lacking:
            return
        plan = spread(lacking, brokers, replication_factor=self._growth.copies)
        rotate_leaders(plan, sorted(brokers), list(topics))
        if self._rate >= 0:
            await throttle(self._admin, lacking, plan, self._rate)
        answers = await self._admin.alter_partition_reassignments(plan)
        if any(map(_lacks_broker, answers.values())):
            # A broker has ended since. This says how to bring it back, if it does not come itself.
            await self._live_brokers()
            answers = await self._admin.alter_partition_reassignments(plan)
        checked({key: answer for key, answer in answers.items() if not _is_gone(answer)})

    async def _wait_until_in_sync(self, names: list[str]) -> None:
        """Returns when all partitions of these topics have their copies. Topics that are deleted
        meanwhile do not count."""
        clock_s = asyncio.get_running_loop().time
        catching_up = CatchingUp(clock_s())
        progress: Progress | None = None
        while True:
            topics = await self._topics()
            moving = await self._admin.list_partition_reassignments()
            partitions = [
                (TopicPartition(name, partition.index), partition)
                for name in names
                if name in topics
                for partition in topics[name].partitions.values()
            ]
            done = sum(
                key not in moving and self._is_replicated(partition)
                for key, partition in partitions
            )
            progress = progress or Progress(
                f"partitions of {names[0]}{' and others' if names[1:] else ''} have their copies",
                len(partitions),
            )
            if done == len(partitions):
                progress.clear()
                return
            progress.update(done, clock_s())
            await self._live_brokers()
            if catching_up.is_due(clock_s()):
                patience_s = _STALLED_S if self._rate >= 0 else _STUCK_S
                missing = await self._missing_bytes(names)
                if catching_up.is_stalled(missing, clock_s(), patience_s):
                    await self._raise_limit(names)
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _missing_bytes(self, names: list[str]) -> int | None:
        """Returns how many bytes the copies of these topics lack; None if that is not known."""
        sizes = await self._sizes(names)
        if not sizes:
            return None
        return sum(self._growth.copies * max(copies) - sum(copies) for copies in sizes.values())

    async def _sizes(self, names: list[str]) -> dict[TopicPartition, list[int]]:
        """Returns the sizes of the replicas of each partition. Nothing is known about a broker that
        cannot be reached."""
        sizes: dict[TopicPartition, list[int]] = {}
        try:
            brokers = await self._admin.describe_log_dirs()
        except ClientError:
            return sizes
        for directory in chain.from_iterable(brokers.values()):
            for partition, replica in directory.replicas.items():
                if partition.topic in names:
                    sizes.setdefault(partition, []).append(replica.size_bytes)
        return sizes

    async def _raise_limit(self, names: list[str]) -> None:
        """Doubles the limit: producers write faster than it lets the copies follow. In the end
        there is none; if that does not help either, something else is wrong."""
        data = self._growth.data
        if self._rate < 0:
            raise CommandFailed(
                f"the copies of {names[0]} do not advance; see the server.log of each broker in"
                f" {data}, and go on with `odradek local grow --data {data}`: nothing is lost"
            )
        self._rate = 2 * self._rate if self._rate < _HIGHEST_RATE else -1
        limit = "lifted" if self._rate < 0 else f"{shown_bytes(self._rate)}/s now"
        self._say(
            f"{names[0]}: its copies do not catch up with its producers; the limit is {limit}"
        )
        await self._set_rate()

    async def _live_brokers(self) -> tuple[Broker, ...]:
        """Returns all brokers. If one is missing for some seconds, the command ends and says how to
        bring it back."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _MISSING_S
        while True:
            brokers = (await self._admin.describe_cluster()).brokers
            present = {broker.id for broker in brokers}
            absent = [
                directory for directory in self._growth.directories if directory.id not in present
            ]
            if not absent:
                return brokers
            if loop.time() > end_s:
                data = self._growth.data
                raise CommandFailed(
                    f"broker {absent[0].id} does not run; bring it back with"
                    f" `odradek broker {absent[0].properties_path}`, and then go on with"
                    f" `odradek local grow --data {data}`: nothing is lost"
                )
            await asyncio.sleep(_LOOK_AGAIN_S)

    # The end

    async def _finish(self, topics: dict[str, Topic]) -> None:
        """Lifts the limits of this run and of earlier ones, and moves leaders to where they
        belong."""
        await lift_throttles(self._admin, topics)
        answers = await self._admin.elect_leaders(ElectionType.PREFERRED)
        refused = {
            partition: answer
            for partition, answer in answers.items()
            if answer is not None and answer.code != ErrorCode.ELECTION_NOT_NEEDED
        }
        for partition, answer in refused.items():
            print(
                f"warning: {partition.topic}-{partition.partition} keeps its leader:"
                f" {answer.message}",
                file=sys.stderr,
            )


class CatchingUp:
    """Notices when the copies of a topic come no nearer to their leaders for some time."""

    def __init__(self, now_s: float) -> None:
        self._least: int | None = None
        self._since_s = now_s
        self._looked_s = now_s

    def is_due(self, now_s: float) -> bool:
        """Returns whether to look again; that costs a request to each broker."""
        if now_s - self._looked_s < _MEASURE_S:
            return False
        self._looked_s = now_s
        return True

    def is_stalled(self, missing_bytes: int | None, now_s: float, patience_s: float) -> bool:
        if missing_bytes is None:
            return False
        if self._least is None or missing_bytes < self._least:
            self._least, self._since_s = missing_bytes, now_s
            return False
        if now_s - self._since_s < patience_s:
            return False
        self._least, self._since_s = missing_bytes, now_s
        return True


def batches(topics: list[Topic]) -> Iterator[list[str]]:
    """Yields the names of topics to work on together. The coordinators' topics come first, because
    groups and transactions depend on them."""
    batch: list[str] = []
    partitions = 0
    for topic in sorted(topics, key=lambda topic: (topic.name not in INTERNAL_TOPICS, topic.name)):
        if batch and partitions + len(topic.partitions) > _BATCH_PARTITIONS:
            yield batch
            batch, partitions = [], 0
        batch.append(topic.name)
        partitions += len(topic.partitions)
    if batch:
        yield batch


def rotate_leaders(plan: Plan, brokers: list[int], topics: list[str]) -> None:
    """Puts another broker first in each partition of a topic, and begins with another one in each
    topic, so that every topic has its leaders on all brokers."""
    for partition, replicas in plan.items():
        turn = topics.index(partition.topic) + partition.partition
        preferred = brokers[turn % len(brokers)]
        if preferred in replicas:
            replicas.remove(preferred)
            replicas.insert(0, preferred)


def _lacks_broker(answer: KafkaError | None) -> bool:
    return answer is not None and answer.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def _is_gone(answer: KafkaError | None) -> bool:
    return isinstance(answer, KafkaError) and answer.code in _GONE
