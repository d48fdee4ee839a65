"""The process and its event loop."""

from collections.abc import Generator

from odradek.broker.management.sources import Sources
from odradek.telemetry.catalogue import process as metrics
from odradek.telemetry.declarations import Collected, Distribution
from odradek.world.process_usage import process_usage, start_time_s

_SECONDS = 1e-6
# The highest bound in the histogram of stalls: seventeen seconds.
_LONGEST_US = 1 << 24


def collect(sources: Sources, into: Collected) -> Generator[None, None, None]:
    usage = process_usage()
    yield
    into.add(metrics.CPU, round(usage.cpu_s, 3))
    into.add(metrics.OPEN_FILES, usage.open_files)
    into.add(metrics.MAX_FILES, usage.max_files)
    into.add(metrics.RESIDENT, usage.resident_bytes)
    into.add(metrics.VIRTUAL, usage.virtual_bytes)
    into.add(metrics.START_TIME, start_time_s())
    if usage.disk_read_bytes is not None:
        into.add(metrics.DISK_READ, usage.disk_read_bytes)
    if usage.disk_written_bytes is not None:
        into.add(metrics.DISK_WRITE, usage.disk_written_bytes)
    stalls = sources.stalls.late_us
    buckets = tuple((bound * _SECONDS, seen) for bound, seen in stalls.cumulative(_LONGEST_US))
    into.add(metrics.STALLS, Distribution(stalls.count, stalls.total * _SECONDS, buckets=buckets))
    into.add(metrics.LONGEST_STALL, sources.stalls.longest_s)
