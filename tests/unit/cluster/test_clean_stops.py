"""A broker that stops cleanly while it does not know whether its registration was written."""

import pytest

from odradek.metadata import Operation, OutcomeUnknown, Set
from odradek.metadata.memory import MemorySession
from odradek.metadata.node_values import LastRegistration
from odradek.metadata.paths import broker_epoch_path, broker_path
from odradek.storage.file_names import CLEAN_SHUTDOWN
from odradek.storage.text_files import CleanStop
from tests.unit.cluster.crew import Crew, on_crew


def lose_replies(monkeypatch: pytest.MonkeyPatch, *, is_written: bool) -> list[int]:
    """Loses the connection to the store instead of the reply to every registration of broker 1,
    from now on. Returns a list that has an item for each of them."""
    lost: list[int] = []
    multi = MemorySession.multi

    async def lose_reply(self: MemorySession, *operations: Operation) -> list[int]:
        if all(one.path != broker_path(1) for one in operations):
            return await multi(self, *operations)
        if is_written:
            await multi(self, *operations)
        lost.append(1)
        self.cut()
        raise OutcomeUnknown

    monkeypatch.setattr(MemorySession, "multi", lose_reply)
    return lost


async def stop_in_doubt(crew: Crew, *, is_written: bool) -> None:
    """Broker 1, the last one in sync, registers again, hears nothing of it and stops cleanly. Its
    machine is booted then."""
    await crew.create(assignment={0: [1, 2]}, min_insync_replicas="2")
    await crew.brokers[2].stop()
    await crew.until(lambda: crew.partition().isr == (1,))
    assert crew.partition().eligible == (2,)
    with pytest.MonkeyPatch.context() as patch:
        lost = lose_replies(patch, is_written=is_written)
        crew.brokers[1].expire_session()
        await crew.until(lambda: bool(lost))
        await crew.brokers[1].stop()
    crew.brokers[1].power_off()


def epoch_of(crew: Crew) -> int:
    node = crew.store.tree.get(broker_epoch_path(1))
    assert node is not None
    return node.version


@pytest.mark.parametrize("is_written", [True, False])
@on_crew(size=2)
async def test_it_has_all_its_logs_whether_it_was_registered_or_not(
    crew: Crew, is_written: bool
) -> None:
    epoch = epoch_of(crew)
    await stop_in_doubt(crew, is_written=is_written)
    assert epoch_of(crew) == epoch + is_written
    await crew.start(1)
    assert (crew.partition().leader, crew.partition().isr) == (1, (1,))


@pytest.mark.parametrize("is_written", [True, False])
@on_crew(size=2)
async def test_a_start_that_fails_hands_the_marker_on(crew: Crew, is_written: bool) -> None:
    await stop_in_doubt(crew, is_written=is_written)
    with pytest.MonkeyPatch.context() as patch:
        lost = lose_replies(patch, is_written=True)
        crew.brokers[1].start()
        await crew.until(lambda: bool(lost))
        await crew.brokers[1].stop()
    crew.brokers[1].power_off()
    await crew.start(1)
    assert (crew.partition().leader, crew.partition().isr) == (1, (1,))


@on_crew(size=2)
async def test_another_run_may_have_taken_the_epoch_that_is_in_doubt(crew: Crew) -> None:
    """The registration was not written. A run on other disks took the same epoch."""
    await stop_in_doubt(crew, is_written=False)
    path, store = broker_epoch_path(1), crew.store.connect()
    before = await store.read(path)
    assert before is not None
    known = LastRegistration.decode(path, before.value)
    await store.multi(Set(path, known._replace(run="another").encode(), before.version))
    await crew.start(1)
    assert 1 not in crew.partition().isr


@on_crew(size=2)
async def test_an_older_copy_of_its_disk_may_lack_records(crew: Crew) -> None:
    """The marker with a registration in doubt is put back after the next run has registered under
    that epoch and was killed."""
    await stop_in_doubt(crew, is_written=False)
    disk = crew.brokers[1].host.disk
    marker = disk.read(f"/data/{CLEAN_SHUTDOWN}")
    assert CleanStop.decode(marker).runs
    await crew.start(1)
    crew.brokers[1].power_off()
    crew.brokers[1].host.power_on()
    disk.replace(f"/data/{CLEAN_SHUTDOWN}", marker)
    await crew.start(1)
    assert 1 not in crew.partition().isr


@on_crew(size=2)
async def test_the_marker_is_kafkas_unless_a_registration_is_in_doubt(crew: Crew) -> None:
    epoch = epoch_of(crew)
    await crew.brokers[1].stop()
    marker = crew.brokers[1].host.disk.read(f"/data/{CLEAN_SHUTDOWN}")
    assert marker == b'{"version":0,"brokerEpoch":%d}' % epoch
