"""How many live tails a user may have open."""

from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakKeyDictionary

import pytest

from odradek.console.asking import Form, PageRequest
from odradek.console.pages import tailing
from odradek.console.pages.tailing import Tail, tails_of
from odradek.console.sessions import LogIn
from odradek.services.identity import Caller, Kind
from odradek.web.problems import Problem


class _Consumer:
    async def close(self, _: float) -> None:
        pass


async def _opened(_: PageRequest, name: str, *__: Any) -> Tail:
    return Tail(name, cast(Any, _Consumer()), [], cast(Any, None), None)


def asked(cluster: Any, name: str, *topics: str) -> PageRequest:
    log_in = LogIn(Caller(Kind.PASSWORD, name, "secret"), name)
    query = Form([("tail", topic) for topic in topics])
    return cast(PageRequest, SimpleNamespace(cluster=cluster, log_in=log_in, query=query))


async def test_a_user_has_a_bounded_number_of_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailing, "_opened", _opened)
    monkeypatch.setattr(tailing, "_MAX_OPEN", 3)
    cluster = SimpleNamespace(tails=WeakKeyDictionary())
    first = await tails_of(asked(cluster, "ada", "a", "b"))
    with pytest.raises(Problem, match="close some pages"):
        await tails_of(asked(cluster, "ada", "c", "d"))
    # What was opened for the page that was refused is closed, and others have tails of their own.
    assert sum(not tail.is_closed for tail in cluster.tails) == 2
    assert len(await tails_of(asked(cluster, "max", "a", "b", "c"))) == 3
    await first[0].close()
    assert len(await tails_of(asked(cluster, "ada", "c", "d"))) == 2
