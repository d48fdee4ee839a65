"""`python -m tests.upgrade COMMIT`: the code of a commit and this one on the same data directories.

That code writes, this one reads and writes more, that one reads it again: upgrade and rollback.
Once with clean stops, once with kill -9. Then three brokers of that code are replaced by brokers of
this one, one after the other, and one of them goes back. `--record` keeps what that code wrote in
`tests/data/upgrade`, for the tests, which have no time to make a work tree.
"""

import argparse
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.upgrade.content import broker, check, write, write_more
from tests.upgrade.rolling import roll

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests/data/upgrade"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="a commit or tag of this repository")
    parser.add_argument("--record", metavar="NAME", help="keep its data as NAME-clean, NAME-killed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-upgrade-") as directory:
        source = Path(directory) / "source"
        _git("worktree", "add", "--detach", str(source), arguments.commit)
        try:
            for killed in (False, True):
                _both_ways(source, Path(directory) / f"data-{killed}", killed, arguments.record)
            roll(source, Path(directory) / "cluster")
        finally:
            _git("worktree", "remove", "--force", str(source))


def _both_ways(source: Path, data: Path, killed: bool, record: str | None) -> None:
    way = "killed" if killed else "clean"
    with broker(source, data, killed=killed) as bootstrap:
        write(bootstrap)
    if record is not None:
        _keep(data, f"{record}-{way}")
    with broker(None, data, killed=killed) as bootstrap:
        check(bootstrap)
        write_more(bootstrap)
    print(f"{way}: this version has read it and written more")
    with broker(source, data, killed=killed) as bootstrap:
        check(bootstrap, more=True)
    print(f"{way}: the earlier version has read all of it")


def _keep(data: Path, name: str) -> None:
    """Packs a directory without application logs. Empty index files are kept: they belong to it."""
    copy = data.parent / name
    shutil.copytree(data, copy)
    for log in ("server", "controller", "state-change"):
        (copy / f"{log}.log").unlink(missing_ok=True)
    (copy / "broker.pid").unlink(missing_ok=True)
    RECORDED.mkdir(parents=True, exist_ok=True)
    with tarfile.open(RECORDED / f"{name}.tar.xz", "w:xz") as archive:
        archive.add(copy, arcname="data")


def _git(*words: str) -> None:
    subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True)


main()
