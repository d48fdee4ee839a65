"""A cluster of three brokers, upgraded broker by broker, and one broker of it rolled back.

The metadata store stays with the earlier version, because `odradek up` of that version runs it.
After each step all records are read, and no replica is missing: brokers of both versions have
replicated to each other.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.upgrade.content import OVERRIDES, check, start, write, write_more

_DEADLINE_S = 60.0


def roll(earlier: Path, data: Path) -> None:
    flags = ("--brokers", "3", "--port", "0", "--data", str(data))
    cluster, bootstrap = start(earlier, "up", *flags, *OVERRIDES)
    brokers: dict[int, subprocess.Popen[str]] = {}
    try:
        write(bootstrap, replicas=3)
        for number in (2, 3, 1):
            _replace(None, data, number, brokers)
            _wait_until_in_sync(bootstrap)
            check(bootstrap)
            print(f"cluster: broker {number} is of this version, and everything is there")
        write_more(bootstrap)
        _replace(earlier, data, 3, brokers)
        _wait_until_in_sync(bootstrap)
        check(bootstrap, more=True)
        print("cluster: broker 3 is of the earlier version again, and everything is there")
    finally:
        cluster.send_signal(signal.SIGTERM)
        cluster.communicate(timeout=_DEADLINE_S)
        for process in brokers.values():
            process.communicate(timeout=_DEADLINE_S)


def _replace(
    source: Path | None, data: Path, number: int, brokers: "dict[int, subprocess.Popen[str]]"
) -> None:
    """Stops a broker cleanly, and starts it again with other code."""
    directory = data / f"broker-{number}"
    os.kill(int((directory / "broker.pid").read_text()), signal.SIGTERM)
    if number in brokers:
        brokers[number].communicate(timeout=_DEADLINE_S)
    else:
        _wait_for(lambda: not (directory / "broker.pid").exists())
    brokers[number], _ = start(source, "broker", str(directory / "server.properties"))


def _wait_until_in_sync(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def is_in_sync() -> bool:
        topics = admin.list_topics(timeout=_DEADLINE_S).topics.values()
        partitions = [one for topic in topics for one in topic.partitions.values()]
        return all(len(one.isrs) == len(one.replicas) == 3 for one in partitions)

    _wait_for(is_in_sync)


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
