"""Sends admin requests about groups and transactional ids to their coordinators.

The coordinator of a key is remembered until it answers that it is not the coordinator any more. A
coordinator whose state is loading or moving is asked again, within `default.api.timeout.ms`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from odradek.client.admin.channel import AdminChannel
from odradek.client.cluster_view import Broker
from odradek.client.connection import Connection
from odradek.client.coordinator_lookup import KeyType, look_up
from odradek.client.errors import ClientError, is_retriable
from odradek.protocol.errors import CoordinatorError, ErrorCode, KafkaError, error_for
from odradek.protocol.types import BrokerId

T = TypeVar("T")

# Errors of a coordinator that is busy with the group or transaction that the request is about.
_BUSY: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.REQUEST_TIMED_OUT})
_LEFT_OUT: Final = error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "The broker left it out.")


class CoordinatorChannel(AdminChannel):
    """Sends each request about a group or transactional id to its coordinator."""

    _coordinators: dict[tuple[KeyType, str], BrokerId] | None = None

    async def ask_coordinators(
        self,
        kind: KeyType,
        keys: Iterable[str],
        ask: Callable[[Connection, list[str]], Awaitable[dict[str, T | KafkaError]]],
    ) -> dict[str, T | KafkaError]:
        """Returns what the coordinators answered, in the order of `keys`.

        An error that is not retried is an answer too.
        """
        unique_keys = list(dict.fromkeys(keys))
        answers: dict[str, T | KafkaError] = {}

        async def attempt() -> None:
            missing = [key for key in unique_keys if key not in answers]
            await self._ask_round(kind, missing, ask, answers)

        await self._retry(attempt, ", ".join(unique_keys))
        return {key: answers[key] for key in unique_keys}

    async def ask_broker(self, broker: BrokerId, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """Asks one broker about all that it coordinates, again while some of it is loading."""

        async def attempt() -> T:
            return await ask(await self.connection(broker))

        return await self._retry(attempt, f"what broker {broker} keeps")

    async def _retry(self, attempt: Callable[[], Awaitable[T]], about: str) -> T:
        return await self.cluster.retry.run_within(
            self.settings.default_api_timeout_ms,
            f"no answer about {about}",
            attempt,
            may_retry=_may_retry,
            max_retries=self.settings.retries,
        )

    async def coordinator(self, kind: KeyType, key: str) -> Broker:
        """Returns the coordinator of a group or a transactional id."""

        async def stay(_: Connection, keys: list[str]) -> dict[str, bool | KafkaError]:
            return dict.fromkeys(keys, True)

        answers = await self.ask_coordinators(kind, [key], stay)
        if isinstance(error := answers[key], KafkaError):
            raise error
        return self.known_coordinator(kind, key)

    def known_coordinator(self, kind: KeyType, key: str) -> Broker:
        """Returns the broker that was the last coordinator of this key to answer."""
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
    ) -> None:
        """Asks each coordinator once and adds to `answers`; raises an error that may be retried if
        some keys have no answer yet."""
        cache = self._known_coordinators
        unfound = await self._find(kind, [key for key in keys if (kind, key) not in cache])
        by_broker: dict[BrokerId, list[str]] = {}
        for key in keys:
            if key not in unfound:
                by_broker.setdefault(cache[kind, key], []).append(key)
        outcomes = await asyncio.gather(
            *(self._ask_one(broker, asked, ask) for broker, asked in by_broker.items())
        )
        reason: ClientError | KafkaError | None = None
        places = [list(unfound), *by_broker.values()]
        for asked, outcome in zip(places, [unfound, *outcomes], strict=True):
            for key in asked:
                answer = outcome.get(key, _LEFT_OUT) if isinstance(outcome, dict) else outcome
                if isinstance(answer, ClientError | CoordinatorError):
                    cache.pop((kind, key), None)
                if isinstance(answer, ClientError):
                    reason = answer
                    continue
                if isinstance(answer, KafkaError) and _may_retry(answer):
                    reason = answer
                else:
                    answers[key] = answer
        if reason is not None:
            raise reason

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
        """Looks coordinators up; returns the errors of keys without one."""
        if not keys:
            return {}
        answers = await look_up(await self.connection(None), kind, keys)
        for coordinator in answers:
            if not coordinator.error_code:
                broker = Broker(BrokerId(coordinator.node_id), coordinator.host, coordinator.port)
                self.cluster.view.brokers.setdefault(broker.id, broker)
                self._known_coordinators[kind, coordinator.key] = broker.id
        problems = {
            coordinator.key: error_for(coordinator.error_code, coordinator.error_message)
            for coordinator in answers
            if coordinator.error_code
        }
        left_out = [key for key in keys if (kind, key) not in self._known_coordinators]
        return dict.fromkeys(left_out, _LEFT_OUT) | problems


def _may_retry(error: BaseException) -> bool:
    """Returns whether the request is sent again. Other errors of a coordinator are its answer about
    a key, even if they are retriable elsewhere."""
    if isinstance(error, KafkaError):
        return isinstance(error, CoordinatorError) or error.code in _BUSY
    return is_retriable(error)
