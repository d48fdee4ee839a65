"""Logs on disk, in Kafka's own format.

`LogManager` holds the logs of a broker. A `Log` is the log of one partition; `recovery` makes it
from the files on disk. `Log.read` returns a `Slice`: whole batches in a file, which the connection
sends later.
"""

from odradek.storage.descriptors import Slice
from odradek.storage.errors import (
    AppendRejected,
    CorruptLog,
    LogClosed,
    LogDirectoryFailed,
    LogDirectoryFull,
    LogFailed,
    OffsetOutOfRange,
    StorageError,
)
from odradek.storage.local_log import AppendResult
from odradek.storage.log import Log
from odradek.storage.log_directory import LogDirectory
from odradek.storage.manager import LogManager
from odradek.storage.recovery import create_log
from odradek.storage.timestamp_search import TimestampOffset

__all__ = [
    "AppendRejected",
    "AppendResult",
    "CorruptLog",
    "Log",
    "LogClosed",
    "LogDirectory",
    "LogDirectoryFailed",
    "LogDirectoryFull",
    "LogFailed",
    "LogManager",
    "OffsetOutOfRange",
    "Slice",
    "StorageError",
    "TimestampOffset",
    "create_log",
]
