"""What the flags of `odradek lag` mean, before a broker is asked."""

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.cli.commands import module_name
from odradek.cli.lag.lag import check
from odradek.cli.lag.lag_actions import _require_group
from odradek.cli.lag.lag_service import address, senders_of
from odradek.cli.parser import load_tool
from odradek.ops.lag.history import Sample
from odradek.tools.failures import CommandFailed, MissingFlag, UsageError


def parse(*flags: str) -> argparse.Namespace:
    return load_tool("lag", module_name("lag"))[1].parse_args(list(flags))


def test_flags_of_the_service_belong_to_it() -> None:
    check(parse("serve", "--webhook", "http://host/x"))
    with pytest.raises(UsageError, match="--mail-to belongs to odradek lag serve"):
        check(parse("--mail-to", "a@b"))
    with pytest.raises(UsageError, match="answers over HTTP"):
        check(parse("serve", "--watch"))
    with pytest.raises(MissingFlag, match="needs both"):
        check(parse("serve", "--smtp", "host:25"))


def test_senders_are_made_before_a_broker_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "hook.json"
    file.write_text('{"text": "$group"}')
    arguments = parse(
        "serve", "--webhook", "http://host/x", "--webhook-template", str(file),
        "--smtp", "host:25", "--mail-to", "a@b",
    )  # fmt: skip
    assert len(senders_of(arguments)) == 2
    file.write_text("$nothing")
    with pytest.raises(CommandFailed, match="there is no"):
        senders_of(arguments)


def test_addresses() -> None:
    assert address("127.0.0.1:8000", "--listen") == ("127.0.0.1", 8000)
    assert address("[::1]:1", "--listen") == ("::1", 1)
    with pytest.raises(UsageError, match="HOST:PORT"):
        address("8000", "--listen")


async def test_a_group_that_is_not_there_is_said_at_once() -> None:
    class Groups:
        async def list_groups(self) -> list[Any]:
            return [SimpleNamespace(group_id="billing")]

    admin: Any = Groups()
    nothing = Sample(0, {}, {})
    await _require_group(admin, "billing", nothing)
    with pytest.raises(CommandFailed, match=r"'biling' does not exist; did you mean billing\?"):
        await _require_group(admin, "biling", nothing)
    with pytest.raises(CommandFailed, match=r"'x' does not exist; `odradek lag --measure 0s`"):
        await _require_group(admin, "x", nothing)
