"""Changes through the primary: batches, lost and unknown writes, and what fencing prevents."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from odradek.registry.decisions import (
    Command,
    DeleteSubject,
    DeleteVersion,
    Register,
    SetConfig,
    SetMode,
    Stale,
)
from odradek.registry.errors import Refused
from odradek.registry.primary import NotPrimary, Primary
from odradek.registry.records import Version
from odradek.registry.state import RegistryState
from tests.unit.registry.memory_log import MemoryLog, MemoryTopic


class Instance:
    def __init__(self, topic: MemoryTopic) -> None:
        self.state = RegistryState()
        self.log = MemoryLog(topic, self.state)
        self.primary = Primary(self.state, self.log)

    def command(self, subject: str, text: str, **more: int) -> Register:
        given = {"id": -1, "version": 0} | more
        return Register(
            subject, text, "AVRO", (), None, None, given["id"], given["version"],
            self.state.stamp(subject),
        )  # fmt: skip

    async def register(self, subject: str, text: str) -> Version:
        while True:
            try:
                reply = await self.primary.carry_out(self.command(subject, text))
            except Stale:
                continue
            assert isinstance(reply.value, Version)
            return reply.value

    async def refusal(self, command: Command) -> int:
        with pytest.raises(Refused) as caught:
            await self.primary.carry_out(command)
        return caught.value.code


@asynccontextmanager
async def running(topic: MemoryTopic) -> AsyncIterator[Instance]:
    instance = Instance(topic)
    task = asyncio.create_task(instance.primary.run())
    instance.primary.elected(True)
    try:
        yield instance
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def replayed(topic: MemoryTopic) -> RegistryState:
    state = RegistryState()
    for record in topic.compacted():
        assert state.apply(record.key, record.value, 1) is None
    return state


async def test_the_same_schema_has_the_same_id_in_all_subjects_of_a_batch() -> None:
    async with running(MemoryTopic()) as one:
        found = await asyncio.gather(
            *(one.register(f"s{index}", f'"{index % 3}"') for index in range(60))
        )
        assert {version.id for version in found} == {1, 2, 3}
        assert one.primary.batches < 10


async def test_versions_of_one_subject_are_numbered_and_keep_their_schemas() -> None:
    async with running(MemoryTopic()) as one:
        found = await asyncio.gather(*(one.register("s", f'"{index}"') for index in range(20)))
        assert sorted(version.version for version in found) == list(range(1, 21))
        assert len({version.id for version in found}) == 20


async def test_an_unknown_write_is_settled_and_answered_once() -> None:
    topic = MemoryTopic()
    async with running(topic) as one:
        await one.register("s", '"a"')
        for failure in ("lost", "unknown"):
            one.log.fail_next = failure
            version = await one.register("s", f'"{failure}"')
            assert version.id == one.state.max_id(".")
        assert [version.version for version in one.state.versions("s")] == [1, 2, 3]
        one.log.fail_next = "unknown"
        assert await one.refusal(SetConfig("s", {"compatibilityLevel": "NONE"})) == 50001


async def test_a_primary_that_was_fenced_changes_nothing() -> None:
    topic = MemoryTopic()
    async with running(topic) as old:
        first = await old.register("s", '"a"')
        async with running(topic) as new:
            second = await new.register("s", '"b"')
            before = list(topic.records)
            with pytest.raises(NotPrimary):
                await old.register("s", '"c"')
            assert topic.records == before
            # It has read what the new one wrote.
            assert old.state.versions("s") == [first, second]
            assert (await new.register("s", '"c"')).id == 3


async def test_the_id_of_a_schema_that_is_gone_is_not_given_again() -> None:
    topic = MemoryTopic()
    async with running(topic) as one:
        await one.register("s", '"a"')
        await one.register("t", '"b"')
        for permanent in (False, True):
            await one.primary.carry_out(DeleteSubject("t", permanent))
    async with running(topic) as other:
        other.state = replayed(topic)
        assert other.state.max_id(".") == 2
        assert not other.state.has_subject("t", deleted=True)


class TestRefusals:
    async def test_deletes_in_the_wrong_order(self) -> None:
        async with running(MemoryTopic()) as one:
            assert await one.refusal(DeleteSubject("s", False)) == 40401
            await one.register("s", '"a"')
            assert await one.refusal(DeleteSubject("s", True)) == 40405
            assert await one.refusal(DeleteVersion("s", 1, True)) == 40407
            assert await one.refusal(DeleteVersion("s", 2, False)) == 40402
            await one.primary.carry_out(DeleteSubject("s", False))
            assert await one.refusal(DeleteSubject("s", False)) == 40404
            assert await one.refusal(DeleteVersion("s", 1, False)) == 40406

    async def test_modes(self) -> None:
        async with running(MemoryTopic()) as one:
            await one.register("s", '"a"')
            assert await one.refusal(SetMode(None, "IMPORT", False)) == 42205
            assert await one.refusal(one.command("s", '"b"', id=9)) == 42205
            await one.primary.carry_out(SetMode("s", "READONLY", False))
            assert await one.refusal(one.command("s", '"b"')) == 42205
            assert await one.refusal(DeleteSubject("s", False)) == 42205
            await one.primary.carry_out(SetMode("i", "IMPORT", False))
            reply = await one.primary.carry_out(one.command("i", '"b"', id=9, version=4))
            assert (reply.value.id, reply.value.version) == (9, 4)
            assert await one.refusal(one.command("i", '"c"', id=9)) == 42205


@pytest.mark.parametrize("seed", range(10))
async def test_a_compacted_topic_gives_the_same_state(seed: int) -> None:
    """Random changes with failures; then the compacted topic is read by another instance."""
    chance = random.Random(seed)
    topic = MemoryTopic()
    async with running(topic) as one:
        given: dict[int, str] = {}
        for _ in range(80):
            subject = chance.choice(["a", "b", ":.c:a"])
            one.log.fail_next = chance.choice([None, None, None, "lost", "unknown"])
            number = chance.choice([-1, 1, 2])
            permanent = chance.random() < 0.5
            try:
                if chance.random() < 0.6:
                    text = json.dumps(chance.randrange(8))
                    version = await one.register(subject, text)
                    if subject != ":.c:a":
                        assert given.setdefault(version.id, text) == text
                elif chance.random() < 0.5:
                    await one.primary.carry_out(DeleteVersion(subject, number, permanent))
                else:
                    await one.primary.carry_out(DeleteSubject(subject, permanent))
            except Refused:
                pass
        again = replayed(topic)
        assert list(again.all_versions()) == list(one.state.all_versions())
        assert again.max_ids() == one.state.max_ids()
