"""Collects the metrics of log directories and of the log cleaner.

Those of single logs are in `collectors.partitions`.
"""

from collections.abc import Generator

from odradek.broker.management.sources import Sources
from odradek.storage.log_directory import LogDirectory
from odradek.telemetry.catalogue import logs as metrics
from odradek.telemetry.declarations import Collected


def collect(sources: Sources, into: Collected) -> Generator[None, None, None]:
    """Adds the samples to `into`. It yields between pieces of work, so that the event loop can
    serve requests in between."""
    manager = sources.components.services.logs
    sizes = dict.fromkeys(manager.directories, 0)
    for number, log in enumerate(list(manager.logs.values())):
        if not number % 200:
            yield
        if log.is_usable:
            sizes[log.directory] += log.size_bytes
    for directory, size in sizes.items():
        _add_directory(into, directory, size)
        yield
    into.add(metrics.OFFLINE_DIRECTORIES, len(manager.offline_directories))
    cleaner = manager.cleaner.metrics
    into.add(metrics.CLEANER_DIRTY, cleaner.max_dirty_percent)
    into.add(metrics.CLEANER_UNCLEANABLE, cleaner.uncleanable)
    into.add(metrics.CLEANER_UNCLEANABLE_BYTES, cleaner.uncleanable_bytes)
    into.add(metrics.CLEANER_RECOPY, cleaner.recopy_percent)
    into.add(metrics.CLEANER_MAX_TIME, cleaner.max_clean_time_s)
    into.add(metrics.CLEANER_DELAY, cleaner.max_compaction_delay_s)
    into.add(metrics.CLEANER_PASSES, cleaner.passes)
    into.add(metrics.CLEANER_PROGRESS, cleaner.progress)


def _add_directory(into: Collected, directory: LogDirectory, size: int) -> None:
    path = directory.path
    into.add(metrics.DIRECTORY_OFFLINE, int(not directory.is_online), path)
    into.add(metrics.DIRECTORY_FULL, int(directory.full is not None), path)
    into.add(metrics.DIRECTORY_LOGS, size, path)
    try:
        free, total = directory.disk.free_bytes(path), directory.disk.total_bytes(path)
    except OSError:
        return  # The disk does not answer, so there are no figures of its space.
    into.add(metrics.DIRECTORY_FREE, free, path)
    into.add(metrics.DIRECTORY_TOTAL, total, path)
