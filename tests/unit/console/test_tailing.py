"""Live tails that cannot be opened."""

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.console.asking import Form
from odradek.console.pages import tailing
from odradek.web.problems import Problem


async def test_tails_are_closed_if_a_later_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class OpenTail:
        def __init__(self, topic: str) -> None:
            self._topic = topic

        async def close(self) -> None:
            closed.append(self._topic)

    async def opened(asked: object, name: str, topic: str, filter_text: str) -> OpenTail:
        if filter_text:
            raise Problem(400, f"{filter_text} is not a filter")
        return OpenTail(topic)

    monkeypatch.setattr(tailing, "_opened", opened)
    tails = [("tail", "clicks"), ("tail", "orders"), ("tail", "views?(")]
    asked: Any = SimpleNamespace(query=Form(tails))
    with pytest.raises(Problem):
        await tailing.tails_of(asked)
    assert closed == ["clicks", "orders"]
