"""A command without the extra says what to install; nothing is imported before it is used."""

import subprocess
import sys

import pytest

import odradek.web
from odradek.cli.web_options import require_web
from odradek.tools.failures import CommandFailed


def test_a_missing_package_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert odradek.web.missing() is None
    monkeypatch.setattr(odradek.web, "find_spec", lambda name: None)
    with pytest.raises(
        CommandFailed, match=r"starlette is not installed: .* pip install .*\[web\]"
    ):
        require_web()
    with pytest.raises(CommandFailed, match=r"pip install .*\[platform\]"):
        require_web("platform")


def test_balance_without_its_service_imports_no_web_stack() -> None:
    program = (
        "import sys, odradek.web, odradek.cli.balance.balance_actions;"
        "print([n for n in ('starlette', 'uvicorn', 'msgspec', 'zttp') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
