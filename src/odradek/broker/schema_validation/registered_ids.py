"""Which schemas, named by ids or GUIDs, are registered under which subject.

The registry is asked in a thread, one question for each pair of id and rule at a time; requests
that need the same answer wait for it together. A schema's id never changes its meaning, so an
answer that was "yes" is believed for `odradek.schema.registry.cache.ms` without asking, and
longer while the registry does not answer. A "no" is believed for a second only: producers register
a schema just before they use it. Ids are chosen by clients, so both memories are bounded, and so is
the number of questions that wait while the registry is slow.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from odradek.broker.schema_validation.rules import SideRule
from odradek.config.live import LiveSettings
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.schemas.errors import RegistryFailed
from odradek.schemas.framing import SchemaId, id_text
from odradek.world import World

_REFUSAL_S: Final = 1.0
_MAX_ANSWERS: Final = 20_000
# Of questions to the registry at the same time. Others wait for their turn, and time out there.
_MAX_QUESTIONS: Final = 4
# A question waits on after the request that has asked it has timed out.
_MAX_WAITING: Final = 1_000


class Registry(Protocol):
    """The questions to a schema registry. They block, and raise `RegistryFailed` if there is no
    answer."""

    def subjects_of(self, schema_id: SchemaId) -> frozenset[str]:
        """Returns the subjects under which the id is registered; none for an unknown id."""
        ...

    def record_name(self, schema_id: SchemaId) -> str:
        """Returns the full name of the record that the schema describes, empty if it has none."""
        ...


class _Answer(NamedTuple):
    refusal: str | None
    at_s: float


class RegisteredIds:
    def __init__(self, registry: Registry, settings: LiveSettings, world: World) -> None:
        self._registry = registry
        self._settings = settings
        self._workers = world.workers
        self._now_s = world.clock.monotonic_s
        self._answers: OrderedDict[tuple[SideRule, SchemaId], _Answer] = OrderedDict()
        self._asking: dict[tuple[SideRule, SchemaId], asyncio.Task[_Answer]] = {}
        self._turns = asyncio.Semaphore(_MAX_QUESTIONS)

    async def refusal(self, rule: SideRule, schema_id: SchemaId) -> str | None:
        """Returns why the id is refused, or None. Raises `ApiError`, which producers retry, if the
        registry does not answer and has not answered before."""
        key = rule, schema_id
        answer = self._answers.get(key)
        if answer is not None and not self._is_old(answer):
            return answer.refusal
        task = self._asking.get(key)
        if task is None and len(self._asking) >= _MAX_WAITING:
            if answer is not None and answer.refusal is None:
                return None
            raise cannot_check(schema_id, "too many questions wait for the schema registry")
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(rule, schema_id))
            self._asking[key] = task
            task.add_done_callback(partial(self._asked, key))
        timeout_s = self._settings.broker.odradek_schema_registry_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return (await asyncio.shield(task)).refusal
        except RegistryFailed as error:
            reason = str(error)
        except TimeoutError:
            reason = f"the schema registry has not answered within {timeout_s:g} s"
        if answer is not None and answer.refusal is None:
            return None
        raise cannot_check(schema_id, reason)

    def _asked(self, key: tuple[SideRule, SchemaId], task: "asyncio.Task[_Answer]") -> None:
        del self._asking[key]
        if not task.cancelled() and task.exception() is None:
            self._answers[key] = task.result()
            self._answers.move_to_end(key)
            if len(self._answers) > _MAX_ANSWERS:
                self._answers.popitem(last=False)

    def _is_old(self, answer: _Answer) -> bool:
        cache_s = self._settings.broker.odradek_schema_registry_cache_ms / 1000
        return self._now_s() - answer.at_s > (cache_s if answer.refusal is None else _REFUSAL_S)

    async def _ask(self, rule: SideRule, schema_id: SchemaId) -> _Answer:
        async with self._turns:
            call: Callable[[], str | None] = partial(refusal_by, self._registry, rule, schema_id)
            refusal = await self._workers.run_blocking(call)
        return _Answer(refusal, self._now_s())

    def close(self) -> None:
        for task in self._asking.values():
            task.cancel()


def cannot_check(schema_id: SchemaId, reason: str) -> ApiError:
    """Returns an error that producers retry. Of those, it is one that says that nothing was
    written."""
    return ApiError(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        f"schema {id_text(schema_id)} cannot be checked now, try again: {reason}",
    )


def refusal_by(registry: Registry, rule: SideRule, schema_id: SchemaId) -> str | None:
    """Asks the registry why an id is refused under a rule; None if it is not. Blocks."""
    subjects = registry.subjects_of(schema_id)
    if not subjects:
        return f"the schema registry has no schema {id_text(schema_id)}"
    name = registry.record_name(schema_id) if rule.needs_record_name else ""
    subject = rule.subject(name)
    if subject in subjects:
        return None
    return (
        f"schema {id_text(schema_id)} of the {rule.side} is not registered under subject {subject}"
    )
