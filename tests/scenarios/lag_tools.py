"""Burrow, kafka_exporter and kminion, each as a process beside a cluster, and what they say.

All of them listen on loopback and get everything by settings that are written here.
"""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.broker_process import ToolMissing, free_ports

_START_S: Final = 30.0
CLUSTER: Final = "local"
PROGRAMS: Final = ("burrow", "kafka_exporter", "kminion")
HOW_TO_INSTALL: Final = (
    "Install the released programs of github.com/linkedin/Burrow,"
    " github.com/danielqsj/kafka_exporter and github.com/redpanda-data/kminion under the names"
    " burrow, kafka_exporter and kminion, and put them on the PATH or name their directory by"
    " --tools DIRECTORY. Each of the three is a single program that needs nothing else."
)

Lags = dict[tuple[str, str, int], int]
"""By group, topic and partition."""


def find(program: str, directory: Path | None) -> str:
    """Returns the path of a tool; raises `ToolMissing` that says how to get it."""
    found = shutil.which(program, path=None if directory is None else str(directory))
    if found is None:
        raise ToolMissing(f"{program} is missing. {HOW_TO_INSTALL}")
    return found


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=_START_S) as response:
        text: str = response.read().decode()
        return text


@contextmanager
def _running(
    words: list[str], directory: Path, ready_url: str, **environment: str
) -> Iterator[None]:
    """Runs a program until the end of the block, once it answers at the address."""
    with (
        (directory / f"{Path(words[0]).name}.log").open("w") as log,
        subprocess.Popen(
            words, cwd=directory, stdout=log, stderr=log, env=environment or None
        ) as process,
    ):
        try:
            deadline = time.monotonic() + _START_S
            while not _answers(ready_url):
                assert process.poll() is None, f"{words[0]} ended: see {log.name}"
                assert time.monotonic() < deadline, f"{words[0]} does not answer: see {log.name}"
                time.sleep(0.2)
            yield
        finally:
            process.terminate()
            process.wait(_START_S)


def _answers(url: str) -> bool:
    try:
        get(url)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def burrow(program: str, directory: Path, bootstrap: str) -> Iterator[str]:
    """Yields the address of a Burrow with its window of ten commits, which asks every second."""
    port = free_ports(1)[0]
    settings = f"""
[general]
pidfile="{directory}/burrow.pid"
[logging]
level="warn"
[client-profile.local]
kafka-version="2.8.0"
client-id="burrow"
[cluster.{CLUSTER}]
class-name="kafka"
client-profile="local"
servers=["{bootstrap}"]
topic-refresh=2
offset-refresh=1
[consumer.{CLUSTER}]
class-name="kafka"
cluster="{CLUSTER}"
client-profile="local"
servers=["{bootstrap}"]
[storage.default]
class-name="inmemory"
intervals=10
min-distance=0
[evaluator.default]
class-name="caching"
expire-cache=1
[httpserver.default]
address="127.0.0.1:{port}"
"""
    (directory / "burrow.toml").write_text(settings)
    url = f"http://127.0.0.1:{port}"
    words = [program, "--config-dir", str(directory)]
    with _running(words, directory, f"{url}/burrow/admin"):
        yield url


@contextmanager
def kafka_exporter(program: str, directory: Path, bootstrap: str) -> Iterator[str]:
    port = free_ports(1)[0]
    words = [program, f"--kafka.server={bootstrap}", f"--web.listen-address=127.0.0.1:{port}"]
    # Otherwise it shares scrapes between callers, and then often loses the last series of one.
    words += ["--refresh.metadata=1s", "--concurrent.enable"]
    url = f"http://127.0.0.1:{port}"
    with _running(words, directory, f"{url}/metrics"):
        yield url


@contextmanager
def kminion(program: str, directory: Path, bootstrap: str) -> Iterator[str]:
    port = free_ports(1)[0]
    settings = {
        "kafka": {"brokers": [bootstrap]},
        "minion": {"logDirs": {"enabled": False}},
        "exporter": {"host": "127.0.0.1", "port": port},
    }
    file = directory / "kminion.yaml"
    file.write_text(yaml.safe_dump(settings))
    url = f"http://127.0.0.1:{port}"
    with _running([program], directory, f"{url}/ready", CONFIG_FILEPATH=str(file)):
        yield url


# What they say


def burrow_groups(url: str) -> dict[str, dict[str, Any]]:
    """Returns what Burrow's HTTP API says of each group; Odradek has the same API."""
    base = f"{url}/v3/kafka/{CLUSTER}/consumer"
    found = {}
    for group in json.loads(get(base))["consumers"]:
        try:
            found[group] = json.loads(get(f"{base}/{group}/lag"))["status"]
        except urllib.error.HTTPError:
            continue  # It has gone meanwhile.
    return found


def burrow_status(groups: dict[str, dict[str, Any]], group: str) -> str:
    """Returns the status of the worst partition, of which the group's follows: STOP, STALL and
    REWIND are all ERR there."""
    order = ("OK", "WARN", "STOP", "STALL", "REWIND")
    partitions = [one for one in groups.get(group, {}).get("partitions", []) if one["end"]]
    if not partitions:
        return "NOTFOUND"
    return max((str(one["status"]) for one in partitions), key=order.index)


def burrow_lags(groups: dict[str, dict[str, Any]]) -> Lags:
    return {
        (group, one["topic"], one["partition"]): one["current_lag"]
        for group, status in groups.items()
        for one in status["partitions"]
        if one["end"]
    }


def prometheus_lags(urls: list[str], series: str, labels: tuple[str, str, str]) -> Lags:
    """Returns the sum over all addresses of a series, by its labels for group, topic and
    partition."""
    found: Lags = {}
    for url in urls:
        for family in text_string_to_metric_families(get(f"{url}/metrics")):
            for sample in family.samples:
                if sample.name == series:
                    group, topic, partition = (sample.labels[label] for label in labels)
                    key = (group, topic, int(partition))
                    found[key] = found.get(key, 0) + int(sample.value)
    return found


def prometheus_sums(urls: list[str], series: str) -> dict[tuple[str, ...], int]:
    """Returns the sum over all addresses of a series by its labels, in the order of their names."""
    found: dict[tuple[str, ...], int] = {}
    for url in urls:
        for family in text_string_to_metric_families(get(f"{url}/metrics")):
            for sample in family.samples:
                if sample.name == series:
                    key = tuple(value for _, value in sorted(sample.labels.items()))
                    found[key] = found.get(key, 0) + int(sample.value)
    return found
