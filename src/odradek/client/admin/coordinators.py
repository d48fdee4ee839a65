"""Finds the brokers that keep groups and transactional ids, and asks them.

Which broker coordinates what is remembered until it says that it does not any more. Whoever is
asked while its state loads or moves is asked again, within the time that a call may take.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from odradek.client.admin.channel import AdminChannel
from odradek.client.cluster import Broker
from odradek.client.connection import Connection
from odradek.client.coordinator_lookup import KeyType, look_up
from odradek.client.errors import ClientError, RequestTimedOut, is_retriable
from odradek.protocol.errors import CoordinatorError, ErrorCode, KafkaError, error_for
from odradek.protocol.types import BrokerId

T = TypeVar("T")

# What a coordinator says while it is busy with the very thing that is asked about.
_BUSY: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.REQUEST_TIMED_OUT})
_LEFT_OUT: Final = error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "The broker left it out.")


class CoordinatorChannel(AdminChannel):
    """Requests about groups and transactional ids, each to the broker that keeps it."""

    _coordinators: dict[tuple[KeyType, str], BrokerId] | None = None

    async def ask_coordinators(
        self,
        kind: KeyType,
        keys: Iterable[str],
        ask: Callable[[Connection, list[str]], Awaitable[dict[str, T | KafkaError]]],
    ) -> dict[str, T | KafkaError]:
        """What the coordinators answered, in the order of `keys`.

        An error that asking again does not cure is an answer too.
        """
        wanted = list(dict.fromkeys(keys))
        answers: dict[str, T | KafkaError] = {}

        async def again() -> BaseException | None:
            missing = [key for key in wanted if key not in answers]
            return await self._ask_round(kind, missing, ask, answers) if missing else None

        await self._until_settled(again, ", ".join(wanted))
        return {key: answers[key] for key in wanted}

    async def ask_broker(self, broker: BrokerId, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """Asks one broker about all that it coordinates, again while some of it is loading."""
        answers: list[T] = []

        async def again() -> BaseException | None:
            try:
                answers.append(await ask(await self.connection(broker)))
            except ClientError as error:
                if not is_retriable(error):
                    raise
                return error
            except KafkaError as error:
                if not _is_passing(error):
                    raise
                return error
            return None

        await self._until_settled(again, f"what broker {broker} keeps")
        return answers[-1]

    async def _until_settled(
        self, again: Callable[[], Awaitable[BaseException | None]], about: str
    ) -> None:
        """Calls `again` until it returns no more reason to, with pauses, for as long as allowed."""
        timeout_ms = self.settings.default_api_timeout_ms
        reason: BaseException | None = None
        failures = 0
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while (reason := await again()) is not None:
                    failures += 1
                    if isinstance(reason, ClientError) and failures > self.settings.retries:
                        raise reason
                    await asyncio.sleep(self.cluster.retry_backoff.delay_s(failures))
        except TimeoutError as error:
            if isinstance(error, ClientError):
                raise
            raise RequestTimedOut(
                f"no answer about {about} within {timeout_ms} ms:"
                f" {reason or 'the broker is silent'}"
            ) from reason

    async def coordinator(self, kind: KeyType, key: str) -> Broker:
        """The broker that keeps a group or a transactional id."""

        async def stay(_: Connection, keys: list[str]) -> dict[str, bool | KafkaError]:
            return dict.fromkeys(keys, True)

        found = await self.ask_coordinators(kind, [key], stay)
        if isinstance(error := found[key], KafkaError):
            raise error
        return self.known_coordinator(kind, key)

    def known_coordinator(self, kind: KeyType, key: str) -> Broker:
        """The broker that answered last for this key."""
        return self.cluster.view.brokers[self._known_coordinators[kind, key]]

    @property
    def _known_coordinators(self) -> dict[tuple[KeyType, str], BrokerId]:
        if self._coordinators is None:
            self._coordinators = {}
        return self._coordinators

    async def _ask_round(
        self,
        kind: KeyType,
        keys: list[str],
        ask: Callable[[Connection, list[str]], Awaitable[dict[str, T | KafkaError]]],
        answers: dict[str, T | KafkaError],
    ) -> BaseException | None:
        """Asks each coordinator once; returns an error that asking again may cure."""
        cache = self._known_coordinators
        try:
            unfound = await self._find(kind, [key for key in keys if (kind, key) not in cache])
        except (ClientError, KafkaError) as error:
            if not is_retriable(error):
                raise
            return error
        by_broker: dict[BrokerId, list[str]] = {}
        for key in keys:
            if key not in unfound:
                by_broker.setdefault(cache[kind, key], []).append(key)
        outcomes = await asyncio.gather(
            *(self._ask_one(broker, asked, ask) for broker, asked in by_broker.items())
        )
        reason: BaseException | None = None
        places = [list(unfound), *by_broker.values()]
        for asked, outcome in zip(places, [unfound, *outcomes], strict=True):
            for key in asked:
                answer = outcome.get(key, _LEFT_OUT) if isinstance(outcome, dict) else outcome
                if isinstance(answer, ClientError | CoordinatorError):
                    cache.pop((kind, key), None)
                if isinstance(answer, ClientError):
                    reason = answer
                    continue
                if isinstance(answer, KafkaError) and _is_passing(answer):
                    reason = answer
                else:
                    answers[key] = answer
        return reason

    async def _ask_one(
        self,
        broker: BrokerId,
        keys: list[str],
        ask: Callable[[Connection, list[str]], Awaitable[dict[str, T | KafkaError]]],
    ) -> dict[str, T | KafkaError] | ClientError:
        try:
            return await ask(await self.connection(broker), keys)
        except ClientError as error:
            if not is_retriable(error):
                raise
            return error

    async def _find(self, kind: KeyType, keys: list[str]) -> dict[str, KafkaError]:
        """Looks coordinators up; returns why some were not found."""
        if not keys:
            return {}
        found = await look_up(await self.connection(None), kind, keys)
        for one in found:
            if not one.error_code:
                broker = Broker(BrokerId(one.node_id), one.host, one.port)
                self.cluster.view.brokers.setdefault(broker.id, broker)
                self._known_coordinators[kind, one.key] = broker.id
        problems = {
            one.key: error_for(one.error_code, one.error_message) for one in found if one.error_code
        }
        left_out = [key for key in keys if (kind, key) not in self._known_coordinators]
        return dict.fromkeys(left_out, _LEFT_OUT) | problems


def _is_passing(error: KafkaError) -> bool:
    """Whether it goes away by itself."""
    return isinstance(error, CoordinatorError) or error.code in _BUSY
