"""The files of connectors: properties, or JSON as `POST /connectors` takes it."""

import json
import sys

from odradek.config.properties import parse_properties
from odradek.config.setting import InvalidSetting
from odradek.tools.failures import CommandFailed
from odradek.tools.files import read_text


def connector_of(path: str) -> tuple[str, dict[str, str]]:
    """Returns the name and the properties of a connector; `-` is standard input. References to
    secrets stay as they are: the worker resolves them."""
    text = sys.stdin.read() if path == "-" else read_text(path)
    config = _of_json(path, text) if text.lstrip().startswith("{") else _of_lines(path, text)
    name = config.get("name", "").strip()
    if not name:
        raise CommandFailed(f"{path} has no name: a connector needs the property `name`")
    return name, config


def _of_lines(path: str, text: str) -> dict[str, str]:
    try:
        return parse_properties(text)
    except InvalidSetting as error:
        raise CommandFailed(f"{path}: {error}") from None


def _of_json(path: str, text: str) -> dict[str, str]:
    """Reads `{"name": ..., "config": {...}}`, or the properties alone."""
    try:
        content = json.loads(text)
        config = content.get("config", content)
        name = {"name": content["name"]} if "name" in content else {}
        return {**name, **{key: _text(value) for key, value in config.items()}}
    except (ValueError, AttributeError, TypeError) as error:
        raise CommandFailed(f"{path} is not a connector in JSON: {error}") from None


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
