"""The disk of a worker process: with the keys of a partition's files, if they are encrypted.

The broker sends the keys with the job (`keys_for_worker`), through the pipe to its child.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from odradek.world.disk import Disk

if TYPE_CHECKING:
    from odradek.storage.log import Log

ENCRYPTION = "encryption"


def keys_for_worker(log: "Log") -> dict[str, object] | None:
    """What a worker needs to read and write the files of a log; None if nothing is encrypted.
    Raises `OSError` if new files must be encrypted, and no key is at hand."""
    keys = getattr(log.directory.disk, "keys_for_worker", None)
    return None if keys is None else keys(log.path)


def disk_for_worker(
    disk: Disk, keys: Mapping[str, Any] | None, *, reads_unsealed: bool = False
) -> Disk:
    """Runs in the worker. `reads_unsealed` allows to read a segment that the broker is writing."""
    if keys is None:
        return disk
    from odradek.storage.encryption.data_keys import DataKeys  # noqa: PLC0415 - seldom needed
    from odradek.storage.encryption.encrypting_disk import EncryptingDisk  # noqa: PLC0415

    return EncryptingDisk(disk, DataKeys.from_message(keys), reads_unsealed=reads_unsealed)
