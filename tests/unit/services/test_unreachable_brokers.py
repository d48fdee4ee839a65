"""A service that finds no broker says so when it starts, and not only to its first caller."""

import asyncio
import socket

import pytest

from odradek.services import running


def test_a_refused_connection_is_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_GRACE_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        asyncio.run(running.warn_if_unreachable(address))
    assert not caplog.messages
    asyncio.run(running.warn_if_unreachable(address))
    (said,) = caplog.messages
    assert said.startswith(f"no broker can be reached: {address}: connection refused; start one")


def test_a_broker_that_starts_with_the_service_is_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = ["refused", None]

    async def unreachable(_: str) -> str | None:
        return answers.pop(0)

    monkeypatch.setattr(running, "unreachable", unreachable)
    monkeypatch.setattr(running, "_GRACE_S", 0.01)
    asyncio.run(running.warn_if_unreachable("127.0.0.1:9092"))
    assert not answers
    assert not caplog.messages
