"""A cluster of `odradek up --brokers 3`, and a Prometheus with the shipped alert rules, shortened.

`tests.scenarios.alerts` causes in it what the alerts are for.
"""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from odradek.client.admin.admin import Admin
from odradek.client.admin.config_types import (
    ConfigChange,
    ConfigResource,
    ConfigType,
)
from odradek.client.admin.topic_types import NewTopic
from odradek.config.operation import ConfigOperation
from tests.deploy.files import DEPLOY
from tests.deploy.prometheus import Prometheus, running_prometheus, scrape_job
from tests.scenarios.up_process import COMMAND, three_free_ports
from tests.unit.metadata.zookeeper_servers import Ensemble

FACTOR: Final = 60
"""All durations of the rules are so many times shorter: an hour is a minute."""
PATIENCE_S: Final = 150.0
BROKERS: Final = (1, 2, 3)
_MANAGEMENT: Final = 100
_MILLISECONDS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"\b(\d+)([smhd])\b")


def _shorter(text: str) -> str:
    """Returns an expression or a duration in which all durations are shorter."""
    text = _DURATION.sub(
        lambda found: f"{int(found[1]) * _MILLISECONDS[found[2]] // FACTOR}ms", text
    )
    for seconds in ("24 * 3600", "> 900"):
        text = text.replace(seconds, f"{seconds} / {FACTOR}")
    return text


def shortened_rules() -> dict[str, Any]:
    """Returns the shipped rules with shorter durations: `for`, ranges and the look ahead."""
    rules: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["expr"] = _shorter(rule["expr"])
            if "for" in rule:
                rule["for"] = _shorter(rule["for"])
    return rules


async def until(is_so: Callable[[], Awaitable[bool]], problem: str) -> None:
    """Waits until something is so; raises `AssertionError` with the problem if it takes long."""
    deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
    while not await is_so():
        assert asyncio.get_running_loop().time() < deadline_s, problem
        await asyncio.sleep(0.2)


@dataclass
class AlertCluster:
    """What causes act on. Brokers are killed, paused and started again by their number."""

    directory: Path
    port: int
    prometheus: Prometheus
    zookeeper: Ensemble | None = None
    by_hand: dict[int, asyncio.subprocess.Process] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + number - 1}" for number in BROKERS)

    @property
    def targets(self) -> list[str]:
        return [f"127.0.0.1:{self.port + _MANAGEMENT + number - 1}" for number in BROKERS]

    def address(self, number: int) -> tuple[str, int]:
        return "127.0.0.1", self.port + number - 1

    def data(self, number: int) -> Path:
        return self.directory / "data" / f"broker-{number}"

    # Processes

    def pid(self, number: int) -> int:
        return int((self.data(number) / "broker.pid").read_text())

    def signal(self, number: int, what: signal.Signals) -> None:
        os.kill(self.pid(number), what)

    async def kill(self, number: int) -> None:
        """Ends a broker by kill -9; returns when its port is closed."""
        pid = self.pid(number)
        os.kill(pid, signal.SIGKILL)
        if (process := self.by_hand.pop(number, None)) is not None:
            await process.wait()
        await until(lambda: _is_closed(*self.address(number)), f"broker {number} does not end")

    async def start(self, number: int) -> None:
        """Starts a broker that was killed, as a user does; returns when its port is open."""
        words = [*COMMAND, "broker", str(self.data(number) / "server.properties")]
        with (self.directory / f"broker-{number}.log").open("ab") as log:
            self.by_hand[number] = await asyncio.create_subprocess_exec(
                *words, stdout=log, stderr=log
            )

        async def is_open() -> bool:
            return not await _is_closed(*self.address(number))

        await until(is_open, f"broker {number} does not start")

    # Requests

    async def create(self, topic: str, replicas: list[int] | None = None, **configs: str) -> None:
        """Creates a topic with one partition, on these brokers or on all."""
        async with Admin(bootstrap_servers=self.bootstrap) as admin:
            wanted = NewTopic(
                topic,
                assignments={0: replicas or list(BROKERS)},
                configs={name.replace("_", "."): value for name, value in configs.items()},
            )
            for answer in (await admin.create_topics([wanted])).values():
                assert not isinstance(answer, Exception), answer

    async def configure(self, kind: ConfigType, name: str, **configs: str | None) -> None:
        """Sets settings of a broker or topic; None removes one."""
        async with Admin(bootstrap_servers=self.bootstrap) as admin:
            changes = [
                ConfigChange(setting.replace("_", "."), value)
                if value is not None
                else ConfigChange(setting.replace("_", "."), operation=ConfigOperation.DELETE)
                for setting, value in configs.items()
            ]
            answers = await admin.incremental_alter_configs({ConfigResource(kind, name): changes})
            for answer in answers.values():
                assert not isinstance(answer, Exception), answer

    async def scrape_all(self) -> None:
        await self.prometheus.scrape([scrape_job("odradek", self.targets)])


async def _is_closed(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return True
    writer.close()
    return False


@asynccontextmanager
async def alert_cluster(
    directory: Path, overrides: Mapping[str, str], zookeeper: Ensemble | None = None
) -> AsyncIterator[AlertCluster]:
    """Runs the cluster and Prometheus until the end of the block."""
    port = three_free_ports()
    words = ["up", "--brokers", "3", "--port", str(port), "--data", str(directory / "data")]
    for name, value in overrides.items():
        words += ["--override", f"{name}={value}"]
    if zookeeper is not None:
        words += ["--zookeeper", zookeeper.address]
    rules = directory / "rules.yml"
    rules.write_text(yaml.safe_dump(shortened_rules()))
    (directory / "prometheus").mkdir()
    with (directory / "up.log").open("wb") as log:
        up = await asyncio.create_subprocess_exec(
            *COMMAND, *words, stdout=asyncio.subprocess.PIPE, stderr=log
        )
    cluster: AlertCluster | None = None
    try:
        assert up.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while not (line := await up.stdout.readline()).startswith(b"odradek is ready"):
                assert line, (directory / "up.log").read_text()
        targets = [f"127.0.0.1:{port + _MANAGEMENT + number - 1}" for number in BROKERS]
        async with running_prometheus(
            directory / "prometheus",
            [scrape_job("odradek", targets)],
            rules=rules,
            # How long a series counts that is not scraped any more; 5 minutes otherwise.
            flags=[f"--query.lookback-delta={_shorter('5m')}"],
        ) as prometheus:
            cluster = AlertCluster(directory, port, prometheus, zookeeper)
            yield cluster
    finally:
        for process in () if cluster is None else cluster.by_hand.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        up.terminate()
        try:
            await asyncio.wait_for(up.wait(), 30)
        except TimeoutError:
            up.kill()
            await up.wait()
