"""Carries out `--watch`: runs a tool again and again, until Ctrl-C.

A terminal shows the newest output only. Elsewhere outputs follow each other, with `--json` one line
each. A failure after the first run is shown and does not end it: a broker may be back soon.
"""

import argparse
import sys
from time import sleep

from odradek.cli.parser import Tool, flag_of
from odradek.tools.failures import UsageError, explain

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watch(tool: Tool, arguments: argparse.Namespace, name: str) -> int:
    _require_looking(arguments)
    is_terminal = sys.stdout.isatty()
    first = True
    try:
        while True:
            if is_terminal:
                sys.stdout.write(_CLEAR)
            try:
                tool.run(arguments)
                sys.stdout.flush()
            except (UsageError, BrokenPipeError):
                raise  # Nobody reads standard output any more, as in `... --watch | head`.
            except Exception as failure:
                if first:
                    raise
                print(f"{name}: {' '.join(explain(failure, arguments).split())}", file=sys.stderr)
            first = False
            sleep(arguments.watch)
    except KeyboardInterrupt:
        return 0


def _require_looking(arguments: argparse.Namespace) -> None:
    """Raises if the action changes something: to repeat that is never meant."""
    for name in arguments.changing:
        if getattr(arguments, "action", None) == name:
            raise UsageError(f"--watch repeats what only looks; {name} changes something")
        if getattr(arguments, name.replace("-", "_"), None) and not hasattr(arguments, "action"):
            raise UsageError(f"--watch repeats what only looks; {flag_of(name)} changes something")
