"""Checks this machine: limits, memory, disk, clock, and installed software."""

import os
import platform
import sys
from importlib.util import find_spec

from odradek.cli.doctor.disk_growth import check_growth
from odradek.cli.doctor.findings import Findings, Grade
from odradek.spark.prerequisites import SparkMissing, find_java, require_packages
from odradek.world import SystemClock
from odradek.world.disk import OsDisk

_ENOUGH_DESCRIPTORS = 65_536
_MIN_DESCRIPTORS = 1_024
_NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs"})
_MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})
_FULL_SHARE = 0.95
_NEARLY_FULL_SHARE = 0.85
_MIN_FREE_BYTES = 1 << 30
# The program did not exist before this date, so an earlier clock is wrong.
_EARLIEST_MS = 1_760_000_000_000
_CLOCK_IS_UNSYNCHRONISED = 5


def check_machine(findings: Findings, data: str) -> None:
    _check_python(findings)
    _check_descriptors(findings)
    _check_swap(findings)
    _check_disk(findings, os.path.abspath(data))
    _check_clock(findings)
    _check_spark(findings)


def _check_python(findings: Findings) -> None:
    version = platform.python_version()
    if find_spec("uvloop") is None:
        findings.add(
            "python", "warning", f"{version}; without uvloop a broker is slower",
            f"{sys.executable} -m pip install uvloop",
        )  # fmt: skip
    else:
        findings.add("python", "ok", f"{version} with uvloop")


def _check_descriptors(findings: Findings) -> None:
    # A broker raises its limit to the hard one when it starts.
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard >= _ENOUGH_DESCRIPTORS:
        shown = "as many as it likes" if hard == resource.RLIM_INFINITY else str(hard)
        findings.add("descriptors", "ok", f"a process may open {shown} files")
    else:
        grade: Grade = "wrong" if hard < _MIN_DESCRIPTORS else "warning"
        findings.add(
            "descriptors",
            grade,
            f"a process may open {hard} files; a broker needs one for each segment, index and"
            f" connection: allow {_ENOUGH_DESCRIPTORS}",
            f"ulimit -n {_ENOUGH_DESCRIPTORS}   # as root; in a systemd unit: LimitNOFILE=1048576",
        )


def _check_swap(findings: Findings) -> None:
    amounts = _memory_amounts()
    if amounts is None:
        findings.add("swap", "info", "unknown on this system")
        return
    total, free = amounts.get("SwapTotal", 0), amounts.get("SwapFree", 0)
    used_mb = (total - free) // 1024
    if total == 0:
        findings.add("swap", "ok", "none")
    elif used_mb > 64:
        findings.add(
            "swap",
            "warning",
            f"{used_mb} MB in use: a broker that is swapped out stalls; free memory, and let the"
            " kernel swap as little as it can",
            "sysctl -w vm.swappiness=1",
        )
    else:
        findings.add("swap", "ok", f"{total // 1024} MB, {used_mb} MB in use")


def _memory_amounts() -> dict[str, int] | None:
    """Returns the values of /proc/meminfo in KiB, by name."""
    try:
        lines = OsDisk().read("/proc/meminfo").decode().splitlines()
    except OSError:
        return None
    return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}


def _check_disk(findings: Findings, data: str) -> None:
    if os.path.exists(data) and not os.path.isdir(data):
        findings.add("disk", "wrong", f"{data} is a file, and not a directory; correct --data")
        return
    directory = data
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    if not os.access(directory, os.W_OK):
        findings.add(
            "disk", "wrong", f"{directory} cannot be written by this user; choose another --data"
        )
        return
    disk = OsDisk()
    free, total = disk.free_bytes(directory), disk.total_bytes(directory)
    used = 1 - free / total if total else 0.0
    place = f"for {data}" if directory == data else f"in {directory}; there is no {data} yet"
    text = f"{free / 1e9:.1f} GB of {total / 1e9:.1f} GB free {place}"
    if used > _FULL_SHARE or free < _MIN_FREE_BYTES:
        findings.add(
            "disk", "wrong", f"{text}; a full disk refuses records", f"du -sh {data}/* | sort -h"
        )
    elif used > _NEARLY_FULL_SHARE:
        findings.add("disk", "warning", text, f"du -sh {data}/* | sort -h")
    else:
        findings.add("disk", "ok", text)
    check_growth(findings, data, free, SystemClock().now_ms() / 1000)
    _check_file_system(findings, os.path.realpath(directory))


def _check_file_system(findings: Findings, directory: str) -> None:
    entry = mount_of(directory, _mounts())
    if entry is None:
        return
    mount, kind, options = entry
    if kind in _NETWORK_FILE_SYSTEMS:
        findings.add(
            "mount", "warning",
            f"{mount} is {kind}: syncs over a network are slow and can lie; use a local disk",
        )  # fmt: skip
    elif kind in _MEMORY_FILE_SYSTEMS:
        findings.add("mount", "warning", f"{mount} is {kind}: gone when the machine restarts")
    else:
        noatime = {"noatime", "relatime"} & set(options.split(","))
        hint = "" if noatime else "; noatime saves writes"
        findings.add("mount", "ok", f"{mount} is {kind}{hint}")


def _mounts() -> list[list[str]]:
    try:
        lines = OsDisk().read("/proc/mounts").decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line.split() for line in lines]


def mount_of(directory: str, mounts: list[list[str]]) -> tuple[str, str, str] | None:
    """Returns the mount that holds a path: the longest mount point that is a prefix of it, and the
    last of those."""
    best: tuple[str, str, str] | None = None
    for _, mount, kind, options, *_ in mounts:
        path = mount.encode().decode("unicode_escape")
        inside = directory == path or directory.startswith(path.rstrip("/") + "/")
        if inside and (best is None or len(path) >= len(best[0])):
            best = (path, kind, options)
    return best


def _check_clock(findings: Findings) -> None:
    now_ms = SystemClock().now_ms()
    if now_ms < _EARLIEST_MS:
        findings.add("clock", "wrong", "it says a time long past; records would get wrong times")
        return
    state = _kernel_clock_state()
    if state is None:
        findings.add("clock", "info", "whether it is synchronised is unknown on this system")
    elif state == _CLOCK_IS_UNSYNCHRONISED:
        findings.add(
            "clock", "info", "the kernel does not know it to be synchronised; run chrony or ntpd",
            "timedatectl set-ntp true",
        )  # fmt: skip
    else:
        findings.add("clock", "ok", "synchronised")


def _kernel_clock_state() -> int | None:
    """Returns the state of Linux's clock (adjtimex): 0 to 4 if it is synchronised, 5 if not."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        library = ctypes.CDLL(None)
        # A request of zeros reads the state and changes nothing. The buffer is larger than the
        # structure.
        state = library.adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        return None
    return int(state) if state >= 0 else None


def _check_spark(findings: Findings) -> None:
    try:
        require_packages()
        java, version = find_java()
    except SparkMissing as missing:
        findings.add("spark", "info", f"will not start: {missing}. Brokers do not need it")
    else:
        findings.add("spark", "ok", f"pyspark is installed, Java {version} is {java}")
