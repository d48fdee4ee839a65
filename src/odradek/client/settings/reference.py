"""Writes what follows from the declarations of the client's settings.

    python -m odradek.client.settings.reference docs/reference/client-settings.md
    python -m odradek.client.settings.reference src/odradek/client/settings/options.py

The first is the reference page for users. The second has the same settings as typed keyword
arguments, so that mypy refuses a misspelt one and editors show their descriptions. Without a path
the page is printed. A test checks that both are current.
"""

import ast
import inspect
import sys
import textwrap
from typing import Final

from odradek.client.settings.consumer import ConsumerSettings
from odradek.client.settings.producer import ProducerSettings
from odradek.client.settings.security import SecuritySettings
from odradek.client.settings.shared import AdminSettings, ClientSettings
from odradek.client.settings.undeclared import NO_EFFECT, REFUSED
from odradek.config.setting import Setting

_INTRODUCTION: Final = """\
# Settings of the Python client

Names are Kafka's, and so are defaults, except that of `allow.auto.create.topics`. Programs write
them with underscores, properties files and dicts with dots: `Producer(linger_ms=20)`,
`Producer({"linger.ms": 20})`, `ProducerSettings.from_properties({"linger.ms": "20"})`.

- A misspelt keyword or dict key raises `SettingsError` with the most similar name; mypy and editors
  refuse a misspelt keyword before the program runs. An unknown name in properties is ignored with a
  warning.
- Where a class is expected, write an object, a class, or its name as `module:Class`; the module is
  looked for on Python's path. `configure` of such a class gets all settings, also those of its own
  that this page does not know. [Client](../client.md#classes-of-your-own) has the details.
- Settings of topics and brokers are on [another page](settings.md).

This page is generated: `python -m odradek.client.settings.reference
docs/reference/client-settings.md`.
"""

_WITHOUT_EFFECT: Final = """\
Kafka's clients have these; here they change nothing. A value that is not listed is reported by a
warning.
"""
_REFUSED: Final = """\
Ignoring these would deceive, so they are refused. So are other names that begin with `ssl.` or
`sasl.`, and settings of TLS and SASL without a `security.protocol`.
"""

_CLASSES: Final = (ClientSettings, ProducerSettings, ConsumerSettings, AdminSettings)
_OPTIONS_HEAD: Final = '''\
"""The settings of each client as typed keyword arguments; generated, so do not edit it.

`python -m odradek.client.settings.reference src/odradek/client/settings/options.py` writes it from
the declarations beside it.
"""

import ssl
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypedDict

from odradek.client.group.assignors import Assignor
from odradek.client.producer.partitioners import PartitionChoice
from odradek.client.serialization import Deserializer, Serializer
'''


def page() -> str:
    """Returns the reference page."""
    shared = set(ClientSettings.declared())
    parts = [_INTRODUCTION]
    for title, settings in (
        ("Every client", ClientSettings),
        ("Producer", ProducerSettings),
        ("Consumer", ConsumerSettings),
        ("Admin", AdminSettings),
    ):
        declared = settings.declared()
        rows = [
            setting
            for name, setting in sorted(declared.items())
            if settings is ClientSettings
            or name not in shared
            or setting.default != ClientSettings.declared()[name].default
        ]
        parts += [f"## {title}\n", _table(rows)]
    parts += [
        "## Known, without effect\n",
        _WITHOUT_EFFECT,
        "| Name | Needs no warning |\n| --- | --- |\n"
        + "".join(
            f"| `{name}` | {', '.join(f'`{value}`' for value in values)} |\n"
            for name, values in sorted(NO_EFFECT.items())
        ),
        "## Refused\n",
        _REFUSED,
        "| Name | Why |\n| --- | --- |\n"
        + "".join(
            f"| `{name}`{' (admin)' if name == 'interceptor.classes' else ''} | {why} |\n"
            for name, (why, _) in sorted(REFUSED.items())
        ),
    ]
    return "\n".join(parts)


def _table(settings: list[Setting[object]]) -> str:
    lines = ["| Name | Type | Default | Valid values | Description |", "| --- " * 5 + "|"]
    lines += [
        f"| `{setting.name}` | {setting.kind.name.lower()} | {_default(setting)} |"
        f" {setting.expected} | {setting.doc} |"
        for setting in settings
    ]
    return "\n".join(lines) + "\n"


def _default(setting: Setting[object]) -> str:
    if setting.default is None:
        return "unset"
    text = setting.text(setting.default)
    return f"`{text}`" if text else "empty"


def options() -> str:
    """Returns the module of typed keyword arguments."""
    parts = [_OPTIONS_HEAD]
    shared: set[str] = set()
    for settings in _CLASSES:
        name = settings.__name__.replace("Settings", "Options")
        base = (
            "TypedDict, total=False" if settings is ClientSettings else "ClientOptions, total=False"
        )
        described = {
            setting.name.replace(".", "_"): setting.doc for setting in settings.declared().values()
        }
        lines = [f"\n\nclass {name}({base}):\n"]
        for field, annotation in _annotations(settings).items():
            if field in shared or field not in described:
                continue
            lines.append(f"    {field}: {annotation}\n{_docstring(described[field])}")
        if settings is ClientSettings:
            shared = set(_annotations(settings))
        parts.append("".join(lines))
    return "".join(parts)


def _annotations(settings: type[ClientSettings]) -> dict[str, str]:
    """Returns the annotation of each field as its source has it, those of the base class first."""
    bases = (SecuritySettings, settings) if settings is ClientSettings else (settings,)
    nodes: list[ast.stmt] = []
    for one in bases:
        (class_definition,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        assert isinstance(class_definition, ast.ClassDef)
        nodes += class_definition.body
    return {
        node.target.id: ast.unparse(node.annotation).replace("'", '"')
        for node in nodes
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and not ast.unparse(node.annotation).startswith("ClassVar")
    }


def _docstring(doc: str) -> str:
    one_line = f'    """{doc}"""\n'
    if len(one_line) <= 100:
        return one_line
    wrapped = textwrap.wrap(doc, 92)
    return '    """' + "\n    ".join(wrapped) + '"""\n'


def main(arguments: list[str]) -> None:
    written = options() if arguments and arguments[0].endswith(".py") else page()
    if not arguments:
        sys.stdout.write(written)
        return
    from odradek.world import OsDisk  # noqa: PLC0415  - only this command writes

    OsDisk().replace(arguments[0], written.encode())


if __name__ == "__main__":
    main(sys.argv[1:])
