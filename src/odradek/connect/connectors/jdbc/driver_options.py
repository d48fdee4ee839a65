"""The options of a URL that the drivers of Java know, as those of a driver for Python."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from odradek.config.spelling import did_you_mean
from odradek.connect.errors import InvalidConfig

_log = logging.getLogger("odradek.connect")

Translation = Callable[[str], Mapping[str, Any]]


def driver_options(
    given: Mapping[str, str],
    known: Mapping[str, Translation],
    only_tuning: frozenset[str],
    database: str,
) -> dict[str, Any]:
    """Returns the options of the driver for Python. Those that only tune the one of Java are passed
    over, and named in the log. Raises `InvalidConfig` for any other."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in known:
            found.update(known[name](value))
        elif name in only_tuning:
            _log.info("the option %s of the URL has no effect here", name)
        else:
            near = did_you_mean(name, [*known, *only_tuning])
            raise InvalidConfig(
                f"the option {name} of the URL is not supported for {database}{near};"
                f" supported are {', '.join(sorted(known))}"
            )
    return found


def same(name: str) -> Translation:
    return lambda value: {name: value}


def seconds(name: str) -> Translation:
    return lambda value: {name: int(value)}
