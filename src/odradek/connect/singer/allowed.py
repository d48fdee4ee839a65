"""The taps that configurations may name: those of the worker's file, and no others.

    odradek.singer.taps=tap-github=/opt/taps/github/bin/tap-github

A tap is a program in an environment of its own. It becomes a connector class, so
`connector.class=tap-github` is all that a configuration says of it.
"""

import os
from collections.abc import Iterable
from typing import Any, Final, cast

from odradek.connect import plugins
from odradek.connect.errors import InvalidConfig
from odradek.connect.plugins import Plugin

_PREFIX: Final = "odradek.connect.singer."
_MODULE: Final = "odradek.connect.singer.source"


class TapPlugin(Plugin):
    """A connector whose `class_name` is the path of the tap."""

    def load(self) -> Any:
        from odradek.connect.singer.source import source_of  # noqa: PLC0415 - when it is used

        return source_of(self.class_name)


def install(taps: Iterable[str]) -> list[str]:
    """Adds `name=path` of the worker's file; returns lines about what was added. Raises
    `InvalidConfig`."""
    notes = []
    for text in taps:
        name, _, path = (part.strip() for part in text.partition("="))
        if not name or not os.path.isabs(path):
            raise InvalidConfig(
                f"odradek.singer.taps: {text!r} is not like tap-github=/opt/taps/bin/tap-github"
            )
        if not os.access(path, os.X_OK) or os.path.isdir(path):
            raise InvalidConfig(f"odradek.singer.taps: {path} is not a program that can be run")
        full = f"{_PREFIX}{name}"
        for table in (plugins.SOURCES, plugins.CONNECTORS):
            cast("dict[str, Plugin]", table)[full] = TapPlugin(full, _MODULE, path)
        notes.append(f"Singer tap {name}: {path}")
    return notes
