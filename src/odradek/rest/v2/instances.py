"""Consumer instances of version 2: consumers that live between requests.

An instance belongs to who created it. It is found by its owner, group and name, so another caller
finds nothing under the same name, and can neither read with it nor end it. Its requests are
handled one after the other. It is closed, and leaves its group, when it is deleted, when it was not
used for `consumer.instance.timeout.ms`, or when the service stops.

The invariant, which `check` verifies: there are no more instances than allowed, in all and for each
owner.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Final

from odradek.client.consumer.consumer import Consumer
from odradek.client.errors import ClientError
from odradek.groups.consumer.topic_patterns import InvalidPattern, TopicPattern, compile_pattern
from odradek.protocol.errors import KafkaError
from odradek.rest.settings import RestSettings
from odradek.services.client_pool import CallerClients, ClientPool
from odradek.services.identity import Caller, Kind
from odradek.web.problems import Problem

logger = logging.getLogger("odradek.rest")

NOT_FOUND: Final = 40403
ALREADY_EXISTS: Final = 40902
ILLEGAL_STATE: Final = 40903
_SWEEP_S: Final = 1.0
_PATTERN_INTERVAL_S: Final = 30.0

Owner = tuple[str, str]
Key = tuple[Owner, str, str]


def owner_of(caller: Caller) -> Owner:
    """Returns who owns what a caller creates. A token names nobody, so its owner is the token."""
    if caller.kind is Kind.TOKEN:
        return caller.kind.value, sha256(caller.secret.encode()).hexdigest()
    return caller.kind.value, caller.name


class Instance:
    """A consumer, and how its owner wants it to read."""

    def __init__(self, consumer: Consumer, format_: str, timeout_ms: int, min_bytes: int) -> None:
        self.consumer = consumer
        self.format = format_
        self.timeout_ms = timeout_ms
        self.min_bytes = min_bytes
        self.lock = asyncio.Lock()
        self.used_s = asyncio.get_running_loop().time()
        self.users = 0
        self.is_closed = False
        self._pattern: TopicPattern | None = None
        self._matched_s = 0.0

    # Topics by pattern: matched here and in linear time, for a caller's expression must not stall
    # the service as Python's own may.

    async def subscribe_pattern(self, text: str, clients: CallerClients) -> None:
        try:
            self._pattern = compile_pattern(text)
        except InvalidPattern as error:
            raise Problem(400, f"topic_pattern: {error}", code=40001) from None
        await self.match_again(clients, at_once=True)

    def subscribe(self, topics: list[str]) -> None:
        self._pattern = None
        self.consumer.subscribe(topics)

    async def unsubscribe(self) -> None:
        self._pattern = None
        await self.consumer.unsubscribe()
        self.consumer.unassign()

    @property
    def has_pattern(self) -> bool:
        return self._pattern is not None

    async def match_again(self, clients: CallerClients, *, at_once: bool = False) -> None:
        """Subscribes to the topics that match now, if some time has passed."""
        now_s = asyncio.get_running_loop().time()
        if self._pattern is None or (not at_once and now_s - self._matched_s < _PATTERN_INTERVAL_S):
            return
        self._matched_s = now_s
        topics = await clients.admin.list_topics()
        try:
            matching = sorted(self._pattern.matching(topics))
        except InvalidPattern as error:
            raise Problem(400, f"topic_pattern: {error}", code=40001) from None
        if matching and matching != sorted(self.consumer.subscription()):
            self.consumer.subscribe(matching)

    async def close(self) -> None:
        self.is_closed = True
        try:
            await self.consumer.close(5000)
        except (KafkaError, ClientError) as error:
            logger.info("a consumer instance was closed with an error: %s", error)


class Instances:
    """All consumer instances of the service."""

    def __init__(self, settings: RestSettings, pool: ClientPool) -> None:
        self._settings = settings
        self._pool = pool
        self._instances: dict[Key, Instance] = {}

    def __len__(self) -> int:
        return len(self._instances)

    def add(self, owner: Owner, group: str, name: str, instance: Instance) -> None:
        """Adds an instance; raises 409 for a name that the owner has in the group, and 429 if there
        are too many."""
        self.require_room(owner, group, name)
        self._instances[owner, group, name] = instance
        self.check()

    def require_room(self, owner: Owner, group: str, name: str) -> None:
        if (owner, group, name) in self._instances:
            raise Problem(
                409,
                "Consumer with specified consumer ID already exists in the specified consumer"
                " group.",
                code=ALREADY_EXISTS,
            )
        most = self._settings.odradek_max_consumer_instances
        own = sum(key[0] == owner for key in self._instances)
        # Where brokers have no log-in there is one caller, who may have all of them.
        limit = most // 4 if self._pool.uses_sasl else most
        if len(self._instances) >= most or own >= limit:
            raise Problem(
                429, "there are too many consumer instances; delete some that are not used",
                {"retry-after": "5"},
            )  # fmt: skip

    @asynccontextmanager
    async def using(self, owner: Owner, group: str, name: str) -> AsyncIterator[Instance]:
        """Lends an instance to one request at a time; raises 404 if the owner has none."""
        instance = self._instances.get((owner, group, name))
        if instance is None:
            raise _missing()
        instance.users += 1
        try:
            async with instance.lock:
                if instance.is_closed:
                    raise _missing()
                yield instance
        finally:
            instance.users -= 1
            instance.used_s = asyncio.get_running_loop().time()

    async def delete(self, owner: Owner, group: str, name: str) -> None:
        instance = self._instances.pop((owner, group, name), None)
        if instance is None:
            raise _missing()
        # A read that waits ends now, instead of when its time is up.
        instance.consumer.wakeup()
        async with instance.lock:
            await instance.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Deletes what nobody uses, and closes everything at the end."""
        sweeping = asyncio.create_task(self._sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
            instances = list(self._instances.values())
            self._instances.clear()
            await asyncio.gather(*(instance.close() for instance in instances))

    async def _sweep(self) -> None:
        timeout_s = self._settings.consumer_instance_timeout_ms / 1000
        while True:
            await asyncio.sleep(min(_SWEEP_S, timeout_s))
            now_s = asyncio.get_running_loop().time()
            old = [
                (key, instance)
                for key, instance in self._instances.items()
                if not instance.users and now_s - instance.used_s >= timeout_s
            ]
            for key, instance in old:
                del self._instances[key]
                await instance.close()
            self.check()

    def check(self) -> None:
        most = self._settings.odradek_max_consumer_instances
        assert len(self._instances) <= most
        counts = Counter(owner for owner, _, _ in self._instances)
        limit = most // 4 if self._pool.uses_sasl else most
        assert all(count <= limit for count in counts.values())


def _missing() -> Problem:
    return Problem(404, "Consumer instance not found.", code=NOT_FOUND)
