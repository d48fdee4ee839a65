"""A client that is used in a second `asyncio.run()` says so, and can be closed there."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.client import Admin, Consumer, Producer
from odradek.client.errors import ClientClosed

NOWHERE = "127.0.0.1:1"
CLIENTS: list[tuple[Callable[[], Any], str, list[Callable[[Any], Awaitable[Any]]]]] = [
    (
        lambda: Producer(bootstrap_servers=NOWHERE),
        "producer",
        [lambda one: one.send("t", b"v"), lambda one: one.partitions_for("t")],
    ),
    (
        lambda: Consumer(bootstrap_servers=NOWHERE),
        "consumer",
        [lambda one: one.poll(10), lambda one: one.partitions_for("t")],
    ),
    (
        lambda: Consumer("t", bootstrap_servers=NOWHERE, group_id="g"),
        "consumer",
        [lambda one: one.poll(10), lambda one: one.commit(), anext],
    ),
    (
        lambda: Admin(bootstrap_servers=NOWHERE, default_api_timeout_ms=100),
        "admin client",
        [lambda one: one.list_topics()],
    ),
]


@pytest.mark.parametrize(("make", "name", "calls"), CLIENTS)
def test_a_second_event_loop_is_answered(make: Any, name: str, calls: Any) -> None:
    async def begin() -> Any:
        client = await make().start()
        if name == "admin client":
            with pytest.raises(OSError, match="connect"):
                await client.list_topics()
        return client

    async def go_on(client: Any) -> None:
        for call in calls:
            with pytest.raises(ClientClosed) as raised:
                await call(client)
            assert f"the event loop of the {name} has ended" in str(raised.value)
        await client.close()
        await client.close()

    asyncio.run(go_on(asyncio.run(begin())))
