"""The exceptions of `odradek.storage`.

StorageError
├── AppendRejected             the batch is wrong; the log is as before; carries Kafka's error code
├── OffsetOutOfRange           the log does not hold this offset
├── BatchTooLargeToDecompress  a batch is too large when decompressed
├── CorruptLog                 the bytes in a segment are not valid batches
├── LogClosed                  the log was deleted, closed, or truncated below an awaited offset
├── ResourceShortage           no descriptor or memory left; nothing changed, a retry may succeed
├── PartitionLocked            the keys of an encrypted log cannot be had, so it is not loaded
├── LogFailed                  an invariant of the log or its replica was violated; it is offline
├── LogDirectoryFull           no space on the disk; nothing was written, reads go on
└── LogDirectoryFailed         a disk error; every log of that directory is offline from now on
"""

from errno import EAGAIN

from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import Offset
from odradek.storage.disk_errors import NO_DESCRIPTOR_LEFT


class StorageError(Exception):
    """The base class of the exceptions that `odradek.storage` raises on purpose."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class AppendRejected(StorageError):
    """The batch was refused and nothing was written.

    `record_errors` lists the invalid records by their index in the batch, if it is known.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        record_errors: tuple[tuple[int, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.record_errors = record_errors


class OffsetOutOfRange(StorageError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, offset: Offset, log_start_offset: Offset, log_end_offset: Offset) -> None:
        super().__init__(
            f"offset {offset} is outside the log, which holds {log_start_offset} "
            f"up to {log_end_offset}"
        )
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class BatchTooLargeToDecompress(StorageError):
    code = ErrorCode.MESSAGE_TOO_LARGE

    def __init__(self, base_offset: Offset, max_bytes: int) -> None:
        super().__init__(
            f"the batch at offset {base_offset} holds more than the {max_bytes >> 20} MiB that a "
            "broker looks into; read the partition with a consumer"
        )


class CorruptLog(StorageError):
    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class LogClosed(StorageError):
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class ResourceShortage(StorageError):
    def __init__(self, error: OSError) -> None:
        is_files = error.errno in NO_DESCRIPTOR_LEFT
        shortage = "short of memory"
        if is_files:
            shortage = "too many open files, raise the limit (ulimit -n)"
        elif error.errno == EAGAIN:
            shortage = "not possible now"
        super().__init__(f"{shortage}: {error}")


class PartitionLocked(StorageError):
    """The log of a partition is on disk and encrypted, and its keys cannot be had."""


class LogFailed(StorageError):
    """This log alone is offline until the next start. The broker's log has the details."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is offline after an internal error")
        self.path = path


class LogDirectoryFull(StorageError):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"log directory {path} is full: {reason}; records are taken again when there is room"
        )
        self.path = path
        self.reason = reason


class LogDirectoryFailed(StorageError):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"log directory {path} is offline: {reason}")
        self.path = path
        self.reason = reason
