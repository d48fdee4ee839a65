"""What `odradek jmx` does: it reads MBeans from a management port and prints them."""

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from typing import NamedTuple
from urllib.parse import quote

from odradek.config.spelling import did_you_mean
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.terminal import print_json

_TIMEOUT_S = 5.0
_WAIT_S = 0.5
_EVERYTHING = "*:*"
_WHERE_IT_IS = (
    "a broker has a management port if management.listener or JMX_PORT says so; name it with"
    " --jmx-url http://host:port"
)
_OK, _WARNING, _CRITICAL, _UNKNOWN = range(4)

Address = tuple[str, int]
Values = dict[str, float]
"""Values by `object name:attribute`, in the order of the names."""


def read_port(where: Address, path: str) -> object:
    """Returns the value that the port answers a path with; raises `CommandFailed`."""
    host, port = where
    connection = HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", quote(path, safe="/:=,*!"))
        response = connection.getresponse()
        body = response.read()
    except TimeoutError:
        raise CommandFailed(
            f"something listens at {host}:{port} and has not answered for {_TIMEOUT_S:g} s;"
            f" {_WHERE_IT_IS}"
        ) from None
    except (OSError, HTTPException) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise CommandFailed(
            f"no management port answers at {host}:{port}: {reason}; {_WHERE_IT_IS}"
        ) from None
    finally:
        connection.close()
    if response.status != 200 and response.headers.get_content_type() == "text/plain":
        raise CommandFailed(body.decode(errors="replace").strip())
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if response.status != 200 or not isinstance(found, dict):
        raise CommandFailed(
            f"another web server listens at {host}:{port}, not a management port: it answers"
            f" {path.partition('?')[0]} with {response.status} {response.reason}; {_WHERE_IT_IS}"
        )
    if found.get("status") != 200:
        raise CommandFailed(str(found.get("error", "")).partition(" : ")[2])
    return found.get("value")


def read_values(arguments: argparse.Namespace, where: Address) -> Values:
    """Returns the values of the MBeans and attributes that the user named."""
    wanted = [name for name in (arguments.attributes or "").split(",") if name]
    values: Values = {}
    for pattern in arguments.object_name or [_EVERYTHING]:
        # As a pattern, so that the answer has the name of each MBean.
        found = read_port(where, f"/jolokia/read/{_escaped(_as_pattern(pattern))}")
        assert isinstance(found, dict)  # The port answers a pattern so.
        exact = {name: found[name] for name in found if _is_meant(pattern, name)}
        for name, attributes in sorted(exact.items()):
            for attribute in wanted or attributes:
                if attribute in attributes:
                    values[f"{name}:{attribute}"] = attributes[attribute]
        _refuse_unknown(wanted, exact)
    return values


def _refuse_unknown(wanted: list[str], beans: dict[str, dict[str, float]]) -> None:
    """Raises for an attribute that none of the MBeans has."""
    known = {attribute for attributes in beans.values() for attribute in attributes}
    for attribute in wanted if beans else []:
        if attribute not in known:
            near = did_you_mean(attribute, known) or f"; there are {', '.join(sorted(known))}"
            raise CommandFailed(f"{next(iter(beans))} has no attribute {attribute}{near}")


def _as_pattern(name: str) -> str:
    return name if name.endswith("*") else f"{name},*"


def _is_meant(pattern: str, name: str) -> bool:
    """Returns whether a name that was found for `pattern,*` has no further keys, unless the user
    wrote a pattern with `*` at its end."""
    return pattern.endswith("*") or pattern.count(",") == name.count(",")


def _escaped(name: str) -> str:
    return name.replace("!", "!!").replace("/", "!/")


def print_names(arguments: argparse.Namespace, where: Address) -> int:
    patterns = arguments.object_name or [_EVERYTHING]
    names: list[str] = []
    for pattern in patterns:
        found = read_port(where, f"/jolokia/search/{_escaped(pattern)}")
        assert isinstance(found, list)  # The port answers a search so.
        names += found
    if arguments.json:
        print_json(names)
    else:
        print("\n".join(names))
    return 0


def report(
    arguments: argparse.Namespace, where: Address, sleep: Callable[[float], None] = time.sleep
) -> int:
    """Prints the values, once or again and again until Ctrl-C."""
    is_once = arguments.one_time == "true" or arguments.reporting_interval < 0 or arguments.json
    heading: list[str] | None = None
    while True:
        values = read_values(arguments, where)
        if not values and not arguments.wait:
            named = ", ".join(arguments.object_name) or "there"
            raise CommandFailed(f"no MBean matches {named}{_nearest(arguments, where)}")
        if values:
            if arguments.json:
                print_json(values)
            elif arguments.report_format == "original":
                heading = _print_row(values, heading)
            else:
                _print_lines(values, arguments.report_format)
            sys.stdout.flush()
            if is_once:
                return 0
        sleep(arguments.reporting_interval / 1000 if values else _WAIT_S)


def _nearest(arguments: argparse.Namespace, where: Address) -> str:
    names = read_port(where, f"/jolokia/search/{_EVERYTHING}")
    assert isinstance(names, list)  # The port answers a search so.
    meant = arguments.object_name[-1] if arguments.object_name else ""
    return did_you_mean(meant, names) or "; odradek jmx --names shows all"


def _print_row(values: Values, heading: list[str] | None) -> list[str]:
    """Prints a line of values, and before it the line of names if it is not the last one."""
    names = list(values)
    if names != heading:
        csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(
            ["time", *names]
        )
    csv.writer(sys.stdout, lineterminator="\n").writerow(
        [time.time_ns() // 1_000_000, *values.values()]
    )
    return names


def _print_lines(values: Values, report_format: str) -> None:
    separator = {"properties": "=", "csv": ",", "tsv": "\t"}[report_format]
    for name, value in values.items():
        shown = f'"{value}"' if report_format == "csv" else value
        print(f"{name}{separator}{shown}")


class UnusableCheck(UsageError):
    """The command line of a check is wrong. Its exit code says unknown: 2 would be critical."""

    exit_code = _UNKNOWN


class Range(NamedTuple):
    """A range of the Nagios plug-ins: a value outside alerts, or inside if it begins with @."""

    low: float
    high: float
    alerts_inside: bool

    @classmethod
    def parse(cls, flag: str, text: str) -> "Range":
        body = text.removeprefix("@")
        low, colon, high = body.rpartition(":")
        try:
            lowest = float("-inf") if low == "~" else float(low) if low else 0.0
            highest = float(high) if high or not colon else float("inf")
        except ValueError:
            raise UnusableCheck(
                f"{flag} {text} is not a range: write MAX, MIN: or MIN:MAX"
            ) from None
        return cls(lowest, highest, text.startswith("@"))

    def alerts(self, value: float) -> bool:
        return (self.low <= value <= self.high) is self.alerts_inside


def check(arguments: argparse.Namespace, where: Address) -> int:
    """Prints one line in the form of the Nagios plug-ins, and returns their exit code."""
    ranges = [
        (code, Range.parse(flag, text))
        for code, flag, text in (
            (_CRITICAL, "--crit", arguments.crit),
            (_WARNING, "--warn", arguments.warn),
        )
        if text is not None
    ]
    if not arguments.object_name or not arguments.attributes:
        raise UnusableCheck(
            "--warn and --crit need --object-name and --attributes: what is compared?"
        )
    try:
        values = read_values(arguments, where)
    except CommandFailed as failure:
        print(f"UNKNOWN - {failure}")
        return _UNKNOWN
    if not values:
        print(f"UNKNOWN - no MBean matches {', '.join(arguments.object_name)}")
        return _UNKNOWN
    states = {
        name: next((code for code, limits in ranges if limits.alerts(value)), _OK)
        for name, value in values.items()
    }
    worst = max(states.values())
    word = ("OK", "WARNING", "CRITICAL")[worst]
    shown = [f"{name} is {values[name]:g}" for name, state in states.items() if state == worst]
    measured = " ".join(f"'{name}'={value:g}" for name, value in values.items())
    print(f"{word} - {', '.join(shown[:5])}{', ...' if len(shown) > 5 else ''} | {measured}")
    return worst
