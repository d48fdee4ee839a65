"""Translates the options of a JDBC URL, which are those of Java's drivers, for a Python driver."""

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
    """Returns the options of the Python driver. `known` translates an option of the URL.
    `only_tuning` are options that only tune Java's driver: they are ignored, and a line in the log
    says so. Raises `InvalidConfig` for any other option, and for a value that is not valid."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in known:
            try:
                found.update(known[name](value))
            except ValueError:
                raise InvalidConfig(
                    f"the option {name} of the URL must be a whole number, not {value!r}"
                ) from None
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
    """Translates an option whose values are the same in Python; `name` is its name there."""
    return lambda value: {name: value}


def seconds(name: str) -> Translation:
    """Translates a time in whole seconds; `name` is the option's name in Python."""
    return lambda value: {name: int(value)}
