"""The scenarios find faults: on a disk whose sync lies, promises are broken and it is seen."""

import pytest

from simulation import run
from simulation.disk import SimulatedFile
from simulation.scenarios.broker import broker
from simulation.scenarios.storage import storage


@pytest.fixture
def lying_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedFile, "sync", lambda self: None)


def failures(scenario: object, seeds: range) -> int:
    count = 0
    for seed in seeds:
        try:
            run(scenario, seed)  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001 - whatever is found, it is found
            count += 1
    return count


@pytest.mark.usefixtures("lying_disk")
def test_logs_on_a_lying_disk_are_found_out() -> None:
    assert failures(storage, range(5)) > 0


@pytest.mark.usefixtures("lying_disk")
def test_a_broker_on_a_lying_disk_is_found_out() -> None:
    assert failures(broker, range(1, 8)) > 0
