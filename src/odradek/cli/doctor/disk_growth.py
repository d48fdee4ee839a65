"""Checks how soon the disk of a data directory is full, from what was written lately.

A segment that was changed within the last day counts as written within the last day, as a whole:
for a topic with little traffic that is too much, by at most one segment. What retention deletes
meanwhile is not known from outside, so the text says it, and the grade is a warning.
"""

import os
from collections.abc import Iterator

from odradek.cli.doctor.findings import Findings
from odradek.cli.quantities import shown_bytes, shown_seconds

_DAY_S = 86_400
_SOON_S = 2 * _DAY_S
# Less than this in a day says nothing about the days to come.
_MIN_BYTES = 100_000_000


def check_growth(findings: Findings, data: str, free: int, now_s: float) -> None:
    """Adds a warning if the disk is full within two days at the pace of the last day."""
    written = sum(size for size, changed_s in _segments(data) if 0 <= now_s - changed_s <= _DAY_S)
    if written < _MIN_BYTES:
        return
    left_s = free / written * _DAY_S
    if left_s < _SOON_S:
        findings.add(
            "disk",
            "warning",
            f"{shown_bytes(written)} were written within a day, so the disk is full in about"
            f" {shown_seconds(left_s)}, unless retention deletes as much meanwhile",
            "odradek configs --alter --broker-defaults --add-config log.retention.bytes=BYTES",
        )


def _segments(data: str) -> Iterator[tuple[int, float]]:
    """Yields the size and the time of the last change of every segment below a data directory: that
    of a broker, or of a cluster with a directory for each broker."""
    for directory in _directories(data):
        if os.path.exists(f"{directory}/meta.properties"):
            yield from _segments(directory)
            continue
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name.endswith(".log") and entry.name[0].isdigit():
                        status = entry.stat()
                        yield status.st_size, status.st_mtime
        except OSError:
            continue  # Deleted meanwhile, or not ours to read.


def _directories(data: str) -> list[str]:
    try:
        with os.scandir(data) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
