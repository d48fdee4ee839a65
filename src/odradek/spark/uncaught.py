"""How a program with a session ends if an error, or Ctrl-C, is not handled: with the reason first.
Python's prompt shows an error in the same way, and goes on.

Python would print the frames of the program, of pyspark, py4j and Spark's Python process, then the
message of Java, and the reason somewhere within it. For an error that is written for users, this
prints the reason, and then where the program was. Other errors are printed as before, and so is
everything if ODRADEK_DEBUG is set.
"""

import logging
import os
import signal
import sys
import threading
import traceback
from functools import cache
from types import TracebackType
from typing import Final

from odradek.spark import failures
from odradek.spark.java_output import JavaOutput

# Packages whose frames say nothing about the user's program.
_PACKAGES: Final = (f"{os.sep}pyspark{os.sep}", f"{os.sep}py4j{os.sep}", "<frozen runpy>")
# Logged by py4j with a traceback when Ctrl-C interrupts a call to Java: the call, and the
# connection, which cannot be shut down if Java, which hears Ctrl-C too, has ended first.
_AFTER_INTERRUPTION: Final = frozenset(
    {
        "KeyboardInterrupt while sending command.",
        "Exception occurred while shutting down connection",
    }
)
# Logged with a traceback too if Spark's own handler of Ctrl-C calls Java in the middle of a call.
_NOT_SENT: Final = "Exception while sending command."
_REENTRANT: Final = "reentrant call"
_LOGGERS: Final = (None, "py4j.clientserver")


@cache
def explain_uncaught(output: JavaOutput) -> None:
    """Installs the hook. Called by `session` and `register`, which may be called often."""
    if os.environ.get("ODRADEK_DEBUG"):
        return
    previous = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt) and not _is_interactive():
            output.mute()
            sys.stderr.write("interrupted\n")
        elif _is_of_spark(kind) and failures.is_explained(error):
            if not _is_interactive():
                output.mute()
            sys.stderr.write(f"{explanation(error, trace)}\n")
        else:
            previous(kind, error, trace)

    sys.excepthook = show
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_worth_logging)


def interrupt_plainly() -> None:
    """Lets Ctrl-C raise `KeyboardInterrupt` and do nothing else. Called when a context was created.

    Spark's own handler first calls Java to cancel all jobs. If the program waits for Java just
    then, which is usual, the call fails in the middle of the other one, and py4j logs a traceback.
    """
    if threading.current_thread() is threading.main_thread() and not _is_interactive():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def explanation(error: BaseException, trace: TracebackType | None) -> str:
    """Returns the reason, and below it the frames of the user's program."""
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if not any(package in frame.filename for package in _PACKAGES)
    ]
    return "\n".join(
        [
            f"odradek: {failures.cause(error)}",
            *"".join(traceback.format_list(frames)).splitlines(),
            "(ODRADEK_DEBUG=1 shows all that Spark says)",
        ]
    )


def _is_of_spark(kind: type[BaseException]) -> bool:
    return kind.__module__.split(".")[0] in {"pyspark", "py4j"}


def _is_worth_logging(record: logging.LogRecord) -> bool:
    if record.msg == _NOT_SENT and record.exc_info:
        return not _is_interruption(record.exc_info[1])
    return record.msg not in _AFTER_INTERRUPTION


def _is_interruption(error: BaseException | None) -> bool:
    """Returns whether an error, or one in the handling of which it was raised, comes of Ctrl-C."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or _REENTRANT in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
