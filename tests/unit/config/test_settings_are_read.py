"""Every declared setting is read by production code, or is declared to have no effect.

Reads are found in the source: an attribute of the setting's name, taken from something that is
called `settings`, in a room that has broker or topic settings. What the declarations themselves
check (`_check...` functions of `odradek.config`) does not count: a setting that is only compared
with its neighbour does nothing.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from odradek.config.broker_settings import BrokerSettings
from odradek.config.setting import Setting
from odradek.config.topic_settings import TopicSettings
from odradek.config.without_effect import PREFIXES, UNDECLARED

SOURCE = Path(__file__).parents[3] / "src" / "odradek"
# The rooms of clients have settings of their own, some with the same names.
OTHER_SETTINGS = ("client", "spark", "recipes", "schemas", "testing")
# What a read is taken from. `broker` is the attribute of `LiveSettings`, and the parameter of
# `ConsumerGroupSettings.of`; `own` are the settings of one listener; `self` are the properties of
# the settings themselves.
HOLDERS = ("settings", "_settings", "broker", "own", "self")
# A value that is always refused, so nothing else can read it.
REFUSED = {"remote.storage.enable"}


def all_settings() -> list[Setting[object]]:
    return [*BrokerSettings.declared.values(), *TopicSettings.declared.values()]


def attributes_read(node: ast.AST, in_config: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        is_check = isinstance(child, ast.FunctionDef) and child.name.startswith("_check")
        if in_config and is_check:
            continue
        if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Load):
            holder = child.value
            name = holder.attr if isinstance(holder, ast.Attribute) else None
            name = holder.id if isinstance(holder, ast.Name) else name
            if name in HOLDERS and (name != "self" or in_config):
                yield child.attr
        if in_config and (key := _key_of_values(child)) is not None:
            yield key
        yield from attributes_read(child, in_config)


def _key_of_values(node: ast.AST) -> str | None:
    """The name in `values["name"]`, as `stock_files` reads settings before there is an object."""
    match node:
        case ast.Subscript(ast.Name("values"), ast.Constant(str(key)), ast.Load()):
            return key
    return None


def reads() -> set[str]:
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0]
        if room not in OTHER_SETTINGS:
            found.update(attributes_read(ast.parse(path.read_text()), room == "config"))
    return found


def test_every_setting_is_read_or_declared_to_have_no_effect() -> None:
    found = reads()
    unread = {
        setting.name
        for setting in all_settings()
        if setting.attribute not in found and not setting.no_effect
    }
    assert unread - REFUSED == set(), "implement these, or say why they have no effect"


def test_no_setting_without_effect_is_read() -> None:
    found = reads()
    idle = {setting.name for setting in all_settings() if setting.no_effect}
    read = {setting.name for setting in all_settings() if setting.attribute in found}
    assert idle & read == set()
    assert len(idle) > 20


def test_a_setting_has_one_declaration_or_one_line_in_the_list() -> None:
    declared = {
        name for one in BrokerSettings.declared.values() for name in (one.name, *one.aliases)
    }
    assert declared & set(UNDECLARED) == set()
    assert all(not why.endswith(".") for why in PREFIXES.values())
    assert all(not why.endswith(".") for _, why in UNDECLARED.values())
