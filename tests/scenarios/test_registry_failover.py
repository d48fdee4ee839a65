"""The primary dies under load. Longer: ``python -m tests.scenarios.registry_failover``."""

from tests.scenarios.registry_failover import run


def test_the_primary_is_killed_under_load() -> None:
    made = run(400, kills=3, stop_s=0)
    assert len({one.id for one in made.acknowledged}) > 250


def test_the_primary_is_stopped_and_resumed() -> None:
    run(300, kills=0, stop_s=12)
