"""Watches a cluster's metadata from outside: who leads, who is in sync, who is the controller.

Every broker is asked again and again over a connection of its own. The newest leader epoch that
any of them tells of counts, as it does for clients.
"""

import asyncio
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self

from odradek.client.connection import Connection
from odradek.client.errors import ClientError, ConnectionClosed
from odradek.client.security import ClientSecurity
from odradek.client.settings import AdminSettings
from odradek.protocol.errors import KafkaError
from odradek.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from odradek.protocol.types import TopicPartition
from odradek.world import Randomness

_EVERY_S: Final = 0.01
_PATIENCE_MS: Final = 1_000


class Leadership(NamedTuple):
    """One leader epoch of a partition, and when it was first heard of."""

    epoch: int
    leader: int
    in_sync: frozenset[int]
    seen_s: float


class Watch:
    """Use it with `with`: it runs in a thread of its own."""

    def __init__(
        self,
        brokers: Mapping[int, tuple[str, int]],
        topics: Iterable[str],
        login: Mapping[str, str] | None = None,
    ) -> None:
        """`login` are the client properties with which to log in, if that is needed."""
        self._login = login
        self._brokers = dict(brokers)
        self._topics = list(topics)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.history: dict[TopicPartition, list[Leadership]] = {}
        self._controllers: dict[int, int] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    # What is known

    def leader(self, partition: TopicPartition) -> int:
        return self.history[partition][-1].leader

    def controller(self) -> int:
        """As most brokers say."""
        said = list(self._controllers.values())
        return max(set(said), key=said.count) if said else -1

    def led_by(self, broker: int) -> list[TopicPartition]:
        return [one for one, story in self.history.items() if story[-1].leader == broker]

    def wait_until_in_sync(self, replicas: int, timeout_s: float = 90.0) -> float:
        """Returns how long it took until every partition had so many in-sync replicas."""
        began = time.monotonic()
        while not self.history or any(
            len(story[-1].in_sync) < replicas or story[-1].leader < 0
            for story in self.history.values()
        ):
            if time.monotonic() - began > timeout_s:
                raise AssertionError(f"not in sync after {timeout_s:.0f} s: {self._now()}")
            time.sleep(0.01)
        return time.monotonic() - began

    def without_leader_s(self, partitions: Iterable[TopicPartition], since_s: float) -> float:
        """From a fault until the last of these partitions had a leader of a newer epoch; 0 if
        none of them was given another one."""
        longest = 0.0
        for partition in partitions:
            later = [
                one for one in self.history[partition] if one.seen_s >= since_s and one.leader >= 0
            ]
            before = [one.epoch for one in self.history[partition] if one.seen_s < since_s]
            elected = [one for one in later if not before or one.epoch > max(before)]
            if elected:
                longest = max(longest, elected[0].seen_s - since_s)
        return longest

    def _now(self) -> dict[str, str]:
        return {
            f"{topic}-{index}": f"leader {story[-1].leader}, in sync {sorted(story[-1].in_sync)}"
            for (topic, index), story in self.history.items()
        }

    # Asking

    def _run(self) -> None:
        asyncio.run(self._ask_all())

    async def _ask_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._ask(*one)) for one in self._brokers.items()]
            await asyncio.to_thread(self._stop.wait)
            for task in tasks:
                task.cancel()

    async def _ask(self, broker: int, address: tuple[str, int]) -> None:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in self._topics],
            allow_auto_topic_creation=False,
        )
        security = None
        if self._login:
            security = ClientSecurity(AdminSettings.from_properties(self._login), Randomness())
        while True:
            try:
                connection = await Connection.open(
                    *address,
                    security=security,
                    connect_timeout_ms=_PATIENCE_MS,
                    request_timeout_ms=_PATIENCE_MS,
                )
            except (ClientError, KafkaError):
                self._controllers.pop(broker, None)
                await asyncio.sleep(_EVERY_S)
                continue
            try:
                while True:
                    self._note(broker, await connection.request(request, MetadataResponse))
                    await asyncio.sleep(_EVERY_S)
            except ClientError:
                self._controllers.pop(broker, None)
            finally:
                # At once: the end of TLS takes a while, and the event loop may end before.
                connection.fail(ConnectionClosed("the watch is over"))
                await connection.wait_closed()

    def _note(self, broker: int, response: MetadataResponse) -> None:
        now_s = time.monotonic()
        self._controllers[broker] = response.controller_id
        for topic in response.topics:
            for one in topic.partitions:
                partition = TopicPartition(topic.name or "", one.partition_index)
                story = self.history.setdefault(partition, [])
                in_sync = frozenset(one.isr_nodes)
                seen = Leadership(one.leader_epoch, one.leader_id, in_sync, now_s)
                if not story or story[-1].epoch < seen.epoch:
                    story.append(seen)
                elif story[-1].epoch == seen.epoch and story[-1][:3] != seen[:3]:
                    story[-1] = seen._replace(seen_s=story[-1].seen_s)
