"""The ring buffer of lags: as long as the charts, whatever groups come and go."""

import asyncio
from typing import cast

import pytest

from odradek.console import watching
from odradek.console.watching import LagHistory, Watchers
from odradek.services.client_pool import ClientPool
from odradek.services.identity import Caller, Kind
from odradek.web.problems import Problem


def test_groups_come_and_go() -> None:
    history = LagHistory(3)
    history.add({"a": 1})
    history.add({"a": 2, "b": 5})
    assert list(history.of("a")) == [1, 2]
    assert list(history.of("b")) == [-1, 5]
    assert list(history.of("nobody")) == [-1, -1]
    for lag in (6, 7, 8):
        history.add({"b": lag})
    assert list(history.of("b")) == [6, 7, 8]
    assert list(history.of("a")) == [-1, -1, -1]
    assert "a" not in history._lags


class _Pool:
    """Lends no clients: watchers wait for them."""

    def clients(self, _: Caller) -> "_Pool":
        return self

    async def __aenter__(self) -> None:
        await asyncio.Event().wait()

    async def __aexit__(self, *_: object) -> None:
        pass


async def test_a_watcher_that_nobody_looks_at_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_MAX_WATCHERS", 2)
    watchers = Watchers(cast(ClientPool, _Pool()), 5.0)
    callers = [Caller(Kind.PASSWORD, name, "secret") for name in ("ada", "max", "kim")]
    first, second = (watchers.of(one) for one in callers[:2])
    with pytest.raises(Problem, match="too many users"):
        watchers.of(callers[2])
    first.used_s -= 1000
    third = watchers.of(callers[2])
    assert watchers.of(callers[1]) is second
    assert watchers.of(callers[2]) is third
    await asyncio.gather(first.task, return_exceptions=True)
    assert first.task.cancelled()
    await watchers.close()
