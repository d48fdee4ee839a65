"""Every setting of our own client is read by it."""

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from odradek.client.settings import AdminSettings, ConsumerSettings, ProducerSettings
from odradek.security.tls.settings import TLS_PROPERTIES

SOURCE = Path(__file__).parents[3] / "src" / "odradek" / "client"
# `client.security.tls_settings` reads these by their names.
BY_NAME = {name.replace(".", "_") for name in TLS_PROPERTIES}


def attributes_read(node: ast.AST) -> set[str]:
    """The attributes that are read below a node, outside the checks of the settings themselves."""
    found = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and child.name.startswith("_check"):
            continue
        if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Load):
            found.add(child.attr)
        found |= attributes_read(child)
    return found


@pytest.fixture(scope="module")
def read() -> set[str]:
    trees = (ast.parse(path.read_text()) for path in SOURCE.rglob("*.py"))
    return set().union(*map(attributes_read, trees))


@pytest.mark.parametrize("settings", [ProducerSettings, ConsumerSettings, AdminSettings])
def test_every_setting_of_a_client_is_read(
    settings: type[ProducerSettings] | type[ConsumerSettings] | type[AdminSettings], read: set[str]
) -> None:
    declared = {item.name for item in fields(settings) if item.metadata}
    assert declared - read - BY_NAME == set()
