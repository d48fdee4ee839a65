"""A service waits for its brokers when it starts, and says so; what cannot pass ends the start."""

import pytest

from odradek.client.errors import ConnectionFailed
from odradek.protocol.errors import ErrorCode, error_for
from odradek.services import start
from odradek.services.start import CannotStart, when_brokers_answer


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_RETRY_S", 0.0)


class Brokers:
    """Fails with these errors, one after the other, and then answers."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)

    async def prepare(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


async def test_it_tries_again_until_the_brokers_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_SAY_EVERY_S", -1.0)
    loading = error_for(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    brokers = Brokers(ConnectionFailed("refused"), loading)
    said: list[str] = []
    await when_brokers_answer(brokers.prepare, "b:9092", 60.0, said.append)
    assert brokers.failures == []
    assert [line.startswith("waiting for the brokers at b:9092: ") for line in said] == [True, True]


async def test_what_cannot_pass_ends_the_start_at_once() -> None:
    brokers = Brokers(error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "denied"), ValueError())
    with pytest.raises(CannotStart, match=r"^the brokers at b:9092: .*denied"):
        await when_brokers_answer(brokers.prepare, "b:9092", 60.0, print)
    assert len(brokers.failures) == 1


async def test_its_patience_ends() -> None:
    brokers = Brokers(*[ConnectionFailed("refused")] * 3)
    with pytest.raises(CannotStart, match="refused"):
        await when_brokers_answer(brokers.prepare, "b:9092", -1.0, print)
    assert len(brokers.failures) == 2
