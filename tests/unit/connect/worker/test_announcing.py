"""What is wrong with the worker's file is said before the brokers are asked."""

import asyncio

import pytest

from odradek.connect.worker.server import ConnectService, run_connect
from odradek.connect.worker.settings import StandaloneSettings
from odradek.services.start import CannotStart


def test_a_misspelt_address_is_named_although_no_broker_answers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def waits_for_ever(*_: object) -> None:
        raise CannotStart("the brokers do not answer")

    monkeypatch.setattr(ConnectService, "prepare", waits_for_ever)
    settings = StandaloneSettings.from_file(
        {"bootstrap.server": "a:1", "odradek.engine": "process"}
    )
    with pytest.raises(CannotStart, match="do not answer"):
        asyncio.run(run_connect(settings, print, print))
    assert "bootstrap.server has no effect: there is no such setting; did you mean" in caplog.text
