"""Checks the broker that runs on a data directory of this machine: how many files it has open."""

import os
import re

from odradek.cli.doctor.findings import Findings
from odradek.local.cluster_directory import brokers_in, running_broker
from odradek.wording import counted
from odradek.world.disk import OsDisk

_NEARLY_ALL = 0.8
_LIMIT = re.compile(r"^Max open files\s+(\d+)", re.MULTILINE)


def check_processes(findings: Findings, data: str) -> None:
    disk = OsDisk()
    for directory in (data, *(f"{data}/broker-{number}" for number in brokers_in(disk, data))):
        pid = running_broker(disk, directory)
        usage = None if pid is None else _open_files(f"/proc/{pid}")
        if usage is not None:
            add_open_files(findings, f"process {pid}", *usage)


def _open_files(process: str) -> tuple[int, int] | None:
    """Returns how many files a process has open and may open; None where that is not told."""
    try:
        limit = _LIMIT.search(OsDisk().read(f"{process}/limits").decode())
        used = len(os.listdir(f"{process}/fd"))
    except OSError:
        return None
    return None if limit is None else (used, int(limit[1]))


def add_open_files(findings: Findings, check: str, used: int, limit: int) -> None:
    if used > _NEARLY_ALL * limit:
        findings.add(
            check,
            "wrong",
            f"has {counted(used, 'file')} open and may open {limit}: soon it can neither accept"
            " connections nor begin segments; raise the limit and restart it",
            "systemctl edit odradek   # [Service] LimitNOFILE=1048576; or: ulimit -n 1048576",
        )
    else:
        findings.add(check, "ok", f"has {counted(used, 'file')} open and may open {limit}")
