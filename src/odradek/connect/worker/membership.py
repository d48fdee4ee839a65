"""The group of workers: who is there, who leads, and which worker runs which task.

The group has Kafka Connect's type, `connect`, and a protocol of its own in it. So brokers let no
worker of Apache Kafka Connect in beside ours, nor ours beside one of these: they would both write
to the same topics. Each worker says its address, how far it has read the
configurations, and which tasks it runs. The group's leader shares the tasks out.

Each worker looks every second whether the others listen at their addresses, and removes one whose
machine refuses the connection: its process has ended, and its tasks move at once.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.settings import AdminSettings
from odradek.connect.engine.engine import TaskId
from odradek.connect.worker.assignment import assign
from odradek.connect.worker.worker import Shares, Worker
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.services.group import GroupMember

if TYPE_CHECKING:
    from odradek.connect.worker.settings import DistributedSettings
    from odradek.world import World

_log = logging.getLogger("odradek.connect")

_LOOK_S: Final = 1.0
_CONNECT_S: Final = 2.0
_TIMES: Final = 2


class _Said(msgspec.Struct):
    """What a worker says of itself."""

    url: str
    position: int
    tasks: list[tuple[str, int]]


class _Decided(msgspec.Struct):
    """What the leader answers, the same for all."""

    leader: str
    members: dict[str, str]
    generation: int
    position: int
    tasks: dict[str, list[tuple[str, int]]]
    fences: bool = False
    """Workers of older versions do not say this, and do not do it."""


class WorkerGroup(GroupMember):
    protocol_type = "connect"
    protocol = "odradek"
    group_setting = "group.id"

    def __init__(self, cluster: Cluster, settings: "DistributedSettings", worker: Worker) -> None:
        super().__init__(
            cluster,
            settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
        )
        self._worker = worker
        self.urls: dict[str, str] = {}
        """The address of each member."""

    def metadata(self) -> bytes:
        shares = self._worker.shares
        tasks = () if shares is None else shares.tasks.get(self._worker.url, ())
        said = _Said(
            self._worker.url,
            self._worker.store.position,
            [(task.connector, task.number) for task in tasks],
        )
        return msgspec.json.encode(said)

    def is_former_self(self, metadata: bytes) -> bool:
        said = _said_in(metadata)
        return said is not None and said.url == self._worker.url

    async def decide(self, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        said = {name: _said_in(metadata) for name, metadata in members.items()}
        urls = {name: one.url for name, one in said.items() if one is not None}
        running = {one.url: [TaskId(*task) for task in one.tasks] for one in said.values() if one}
        tasks = self._worker.all_tasks()
        shared = assign(tasks, urls.values(), running)
        decided = _Decided(
            self._worker.url,
            urls,
            self.generation,
            self._worker.store.position,
            {url: [(task.connector, task.number) for task in mine] for url, mine in shared.items()},
            fences=True,
        )
        if len(set(urls.values())) < len(urls):
            _log.error(
                "two workers say that they are at one address: set rest.advertised.host.name and"
                " rest.advertised.port to what others reach each of them by"
            )
        return dict.fromkeys(members, msgspec.json.encode(decided))

    def note_decision(self, decision: bytes, *, leads: bool) -> None:
        decided = msgspec.json.decode(decision, type=_Decided)
        self.urls = decided.members
        tasks = {url: tuple(TaskId(*task) for task in mine) for url, mine in decided.tasks.items()}
        self._worker.note_shares(
            Shares(
                decided.generation, decided.leader, leads, decided.position, tasks, decided.fences
            )
        )

    def note_out(self) -> None:
        self.urls = {}
        self._worker.note_shares(None)

    def refusal(self, code: int) -> str | None:
        if code != ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return None
        return (
            f"workers of Apache Kafka Connect are in the group {self.group_id}: stop them before"
            " these workers take their connectors over"
        )

    async def watch(self) -> None:
        """Removes members whose process has ended."""
        refused: dict[str, int] = {}
        while True:
            await asyncio.sleep(_LOOK_S)
            others = {name: url for name, url in self.urls.items() if url != self._worker.url}
            for name, url in others.items():
                refused[name] = refused.get(name, 0) + 1 if await _is_refused(url) else 0
                if refused[name] >= _TIMES:
                    await self._remove(name, url)
            refused = {name: count for name, count in refused.items() if name in others}

    async def _remove(self, name: str, url: str) -> None:
        _log.warning("the worker at %s has ended; its tasks move", url)
        try:
            await self.remove(name)
        except (ClientError, KafkaError, OSError) as error:
            _log.info("it was not removed: %s", error)
        self.urls.pop(name, None)


class Membership:
    """Keeps a worker in its group."""

    def __init__(self, settings: "DistributedSettings", worker: Worker, world: "World") -> None:
        properties = {**settings.own_client(), "retries": 0}
        self._cluster = Cluster(AdminSettings.from_config(properties), world.randomness)
        self.group = WorkerGroup(self._cluster, settings, worker)
        worker.ask_to_share = self.group.rejoin

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(self.group.run(), name="connect-group"),
            asyncio.create_task(self.group.watch(), name="connect-watch-others"),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._cluster.close()


def _said_in(metadata: bytes) -> _Said | None:
    try:
        return msgspec.json.decode(metadata, type=_Said)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


async def _is_refused(url: str) -> bool:
    """Returns whether no process listens at an address. No answer at all is something else: the
    network may be slow, and the session time-out is for that."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return False
