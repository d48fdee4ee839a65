"""Where the files in `deploy/` are, and how tests read them."""

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from odradek.config import BrokerSettings, parse_properties

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def read_yaml(path: Path) -> list[Any]:
    """Returns the documents of a file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def properties(path: Path, *, with_examples: bool = False) -> dict[str, str]:
    """Returns the settings of a file; with examples, also those that stand behind a #."""
    lines = path.read_text().splitlines()
    if with_examples:
        lines = [
            line[1:] if line.startswith("#") and line[1:2] not in (" ", "") else line
            for line in lines
        ]
    return parse_properties("\n".join(lines))


def overrides(words: list[str]) -> dict[str, str]:
    """Returns the settings of a command line that are given as --override=name=value."""
    given = [word.removeprefix("--override=") for word in words if word.startswith("--override=")]
    return dict(setting.split("=", 1) for setting in given)


def obeyed(settings: dict[str, str]) -> BrokerSettings:
    """Returns a broker's settings, after it has complained about none of them."""
    parsed = BrokerSettings.from_properties(settings)
    assert parsed.warnings == ()
    assert parsed.idle_sentence is None
    return parsed


def program(name: str) -> str | None:
    """Returns the path of a program, if it is installed."""
    return shutil.which(name)


def tool(name: str) -> str:
    """Returns the path of a program, or skips the test by name. Unlike other tools, these are not
    required in CI."""
    path = program(name)
    if path is None:
        pytest.skip(f"{name} is not installed; the content of the files is checked without it")
    return path
