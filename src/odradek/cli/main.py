"""The entry point of the command `odradek`.

Ctrl-C ends a tool without a traceback, also while its modules are being imported. So this module
imports nothing at its top but `sys`; `odradek.cli.dispatch` finds the tool and runs it.
"""

import sys

_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    try:
        from odradek.cli.dispatch import dispatch

        return dispatch(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
