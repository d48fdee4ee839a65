"""Burrow, kafka_exporter and kminion watch a cluster of three brokers with fifty consumer groups,
and Odradek's own lag and statuses agree with theirs.

    python -m tests.scenarios.lag_comparison [--tools DIRECTORY | --without-tools] [--all]

`odradek up --brokers 3` gets fifty groups (`lag_groups`): of the classic and the new protocol, with
static members and without members; that keep up, fall behind, stall, stop, rewind or never commit;
on topics that grow, are compacted, trimmed, deleted, empty, or have an open transaction.

While they run, the status of each group must be the same in Burrow and in `odradek lag serve`, and
the one that the script expects. Then everything stands still, and the lag of each partition must be
the same in kafka_exporter, kminion, Burrow, the brokers' metrics (summed over all brokers),
`odradek lag serve`, `odradek lag` and `odradek consumer-groups`.

Without the tools, Odradek's own programs are compared with each other and with the script.

Printed: a table of differences, those that docs/lag.md explains apart. The exit code is 1 if there
is another one, and 2 if a tool is missing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.broker_process import ToolMissing, free_ports
from tests.scenarios import lag_tools
from tests.scenarios.lag_groups import JUDGED_FROM, TICK_S, Groups, Script, scripts
from tests.scenarios.lag_tools import CLUSTER, Lags
from tests.scenarios.up_process import COMMAND, three_free_ports, wait_for_line

_JUDGE_S: Final = 40.0
_AGREED: Final = 3
"""So many times in a row a status must be the same."""
_STILL_S: Final = 60.0
_MANAGEMENT: Final = 100
_GROUP_LAG: Final = "kafka_consumergroup_lag"
_GROUP_LABELS: Final = ("consumergroup", "topic", "partition")
_KMINION_LAG: Final = "kminion_kafka_consumer_group_topic_partition_lag"
_KMINION_LABELS: Final = ("group_id", "topic_name", "partition_id")

EXPORTER: Final = "kafka_exporter"
CONSUMER_GROUPS: Final = "odradek consumer-groups"
SIGNED: Final = frozenset({EXPORTER, CONSUMER_GROUPS})
BEYOND: Final = "a commit beyond the end: negative there, 0 for all others"
NOT_COMMITTED: Final = "kafka_exporter shows -1 for partitions without a commit"
SUMS: Final = (
    "kafka_brokers",
    "kafka_topic_partitions",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_replicas",
    "kafka_topic_partition_leader",
    "kafka_topic_partition_leader_is_preferred",
    "kafka_topic_partition_under_replicated_partition",
    "kafka_consumergroup_lag_sum",
)


@dataclass(frozen=True)
class Difference:
    """Two programs that say different things. `reason` is empty if nothing explains it."""

    what: str
    said: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.said}" + (f" [{self.reason}]" if self.reason else "")


@dataclass
class Outcome:
    statuses: list[str] = field(default_factory=list)
    lags: int = 0
    sums: int = 0
    differences: list[Difference] = field(default_factory=list)

    @property
    def unexplained(self) -> list[Difference]:
        return [one for one in self.differences if not one.reason]

    def __str__(self) -> str:
        explained = [one for one in self.differences if one.reason]
        return "\n".join(
            [
                f"{len(self.statuses)} groups, {self.lags} lags and {self.sums} sums compared",
                f"{len(self.unexplained)} differences that nothing explains",
                *(f"  {one}" for one in self.unexplained),
                f"{len(explained)} differences that docs/lag.md explains",
                *(f"  {one}" for one in explained),
            ]
        )


class LagComparison:
    """The cluster, the groups and the tools, in a directory of their own."""

    def __init__(self, directory: Path, tools: dict[str, str], tick_s: float = TICK_S) -> None:
        """Tools are asked once in a tick; Burrow cannot be more often than every second."""
        self._directory = directory
        self._tick_s = tick_s
        self._tools = tools
        self._port = three_free_ports()
        self._bootstrap = f"127.0.0.1:{self._port}"
        self._management = [
            f"http://127.0.0.1:{self._port + _MANAGEMENT + number}" for number in range(3)
        ]
        self._urls: dict[str, str] = {}
        self.outcome = Outcome()

    def run(self) -> Outcome:
        words = ["up", "--brokers", "3", "--port", str(self._port)]
        words += ["--data", str(self._directory / "data")]
        words += ["--override", "odradek.metrics.lag.interval.ms=500"]
        words += ["--override", "group.initial.rebalance.delay.ms=0"]
        with ExitStack() as stack:
            self._start(stack, words)
            groups = Groups(self._bootstrap, self._tick_s)
            groups.create_topics()
            self._start_tools(stack)
            groups.start()
            try:
                self._judge(groups)
                groups.freeze()
                self._wait_until(lambda: groups.is_still, groups)
                self._repeat(self._compare_lags)
                self._repeat(self._compare_sums)
            finally:
                groups.stop()
                error = groups.join(_STILL_S)
            if error is not None:
                raise error
        return self.outcome

    def _start(self, stack: ExitStack, words: list[str]) -> "subprocess.Popen[str]":
        process = stack.enter_context(
            subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True)
        )
        stack.callback(process.wait, _STILL_S)
        stack.callback(process.terminate)
        wait_for_line(process, "odradek is ready at " if words[0] == "up" else "")
        return process

    def _start_tools(self, stack: ExitStack) -> None:
        for name, program in self._tools.items():
            start = getattr(lag_tools, name)
            self._urls[name] = stack.enter_context(start(program, self._directory, self._bootstrap))
        port = free_ports(1)[0]
        self._urls["odradek"] = f"http://127.0.0.1:{port}"
        words = ["lag", "serve", "--name", CLUSTER, "--interval", f"{self._tick_s}s"]
        words += ["--listen", f"127.0.0.1:{port}", "--bootstrap-server", self._bootstrap]
        self._start(stack, words)

    def _wait_until(self, is_so: Callable[[], bool], groups: Groups) -> None:
        end_s = time.monotonic() + _STILL_S
        while not is_so():
            assert time.monotonic() < end_s, "the groups do not go on"
            assert not groups.has_died, groups.join()
            time.sleep(0.1)

    # Statuses

    def _judge(self, groups: Groups) -> None:
        """Reads all statuses again and again, until each group was judged alike for long enough."""
        self._wait_until(lambda: groups.tick >= JUDGED_FROM, groups)
        agreed = dict.fromkeys((script.name for script in groups.scripts), 0)
        seen: dict[str, tuple[str, str]] = {}
        end_s = time.monotonic() + _JUDGE_S
        while time.monotonic() < end_s and min(agreed.values()) < _AGREED:
            theirs = self._burrow()
            ours = lag_tools.burrow_groups(self._urls["odradek"])
            for script in groups.scripts:
                name = script.name
                if agreed[name] >= _AGREED:
                    continue
                seen[name] = said = (
                    script.status if theirs is None else lag_tools.burrow_status(theirs, name),
                    lag_tools.burrow_status(ours, name),
                )
                is_right = not _status_differences(script, *said)
                agreed[name] = agreed[name] + 1 if is_right else 0
            assert not groups.has_died, groups.join()
            time.sleep(self._tick_s)
        for script in groups.scripts:
            burrow, odradek = seen[script.name]
            self.outcome.statuses.append(f"{script.name} {script.status} {burrow} {odradek}")
            self.outcome.differences += _status_differences(script, burrow, odradek)

    def _burrow(self) -> dict[str, dict[str, Any]] | None:
        """Returns what Burrow says, or None if it is not there."""
        url = self._urls.get("burrow")
        return None if url is None else lag_tools.burrow_groups(url)

    # Lags

    def _repeat(self, compare: Callable[[], list[Difference]]) -> None:
        """Compares until nothing is unexplained, or for a while: tools ask once in a second."""
        end_s = time.monotonic() + _STILL_S / 4
        differences = compare()
        while any(not one.reason for one in differences) and time.monotonic() < end_s:
            time.sleep(self._tick_s)
            differences = compare()
        self.outcome.differences += differences

    def _compare_lags(self) -> list[Difference]:
        names = {script.name for script in scripts()}
        found = {
            program: {key: lag for key, lag in lags.items() if key[0] in names}
            for program, lags in self._all_lags().items()
        }
        self.outcome.lags = len({key for lags in found.values() for key in lags})
        return lag_differences(found)

    def _all_lags(self) -> dict[str, Lags]:
        served = lag_tools.burrow_groups(self._urls["odradek"])
        found = {
            "brokers' metrics": lag_tools.prometheus_lags(
                self._management, _GROUP_LAG, _GROUP_LABELS
            ),
            "odradek lag serve": lag_tools.burrow_lags(served),
            "odradek lag": self._lags_of_lag(),
            CONSUMER_GROUPS: self._lags_of_consumer_groups(),
        }
        if (burrow := self._burrow()) is not None:
            found["burrow"] = lag_tools.burrow_lags(burrow)
        if (url := self._urls.get(EXPORTER)) is not None:
            found[EXPORTER] = lag_tools.prometheus_lags([url], _GROUP_LAG, _GROUP_LABELS)
        if (url := self._urls.get("kminion")) is not None:
            found["kminion"] = lag_tools.prometheus_lags([url], _KMINION_LAG, _KMINION_LABELS)
        return found

    def _ask(self, *words: str) -> Any:
        flags = ["--json", "--bootstrap-server", self._bootstrap]
        done = subprocess.run(
            [*COMMAND, *words, *flags], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def _lags_of_lag(self) -> Lags:
        answer = self._ask("lag", "--measure", "0s")
        return lag_tools.burrow_lags({one["group"]: one for one in answer})

    def _lags_of_consumer_groups(self) -> Lags:
        answer = self._ask("consumer-groups", "--describe", "--all-groups")
        return {
            (group["group"], one["topic"], one["partition"]): one["lag"]
            for group in answer
            for one in group["offsets"]
            if one["offset"] is not None
        }

    def _compare_sums(self) -> list[Difference]:
        differences: list[Difference] = []
        if (url := self._urls.get(EXPORTER)) is None:
            return differences
        self.outcome.sums = 0
        for series in SUMS:
            theirs = lag_tools.prometheus_sums([url], series)
            ours = lag_tools.prometheus_sums(self._management, series)
            self.outcome.sums += len(theirs)
            for key in sorted(theirs.keys() | ours.keys()):
                their, our = theirs.get(key), ours.get(key)
                if their != our:
                    is_beyond = their is not None and their < 0 and our == 0
                    differences.append(
                        Difference(
                            f"{series} {' '.join(key)}",
                            f"{their} in kafka_exporter, {our} in the brokers' metrics",
                            BEYOND if is_beyond else "",
                        )
                    )
        return differences


def _status_differences(script: Script, burrow: str, odradek: str) -> list[Difference]:
    if burrow == odradek == script.status:
        return []
    said = f"{burrow} in Burrow, {odradek} here, expected {script.status}"
    return [Difference(script.name, said)]


def lag_differences(found: dict[str, Lags]) -> list[Difference]:
    """Returns the partitions of which not all say the same, with the reason if there is one."""
    differences = []
    for key in sorted({key for lags in found.values() for key in lags}):
        said = {name: lags.get(key) for name, lags in found.items()}
        if len(set(said.values())) > 1:
            by_value: dict[int | None, list[str]] = {}
            for name, value in said.items():
                by_value.setdefault(value, []).append(name)
            text = "; ".join(f"{value} in {', '.join(names)}" for value, names in by_value.items())
            differences.append(Difference("{} {}-{}".format(*key), text, _reason(by_value)))
    return differences


def _reason(by_value: dict[int | None, list[str]]) -> str:
    """Returns why some differ, if docs/lag.md says why."""
    negative = {value: names for value, names in by_value.items() if (value or 0) < 0}
    others = by_value.keys() - negative.keys()
    if negative == {-1: [EXPORTER]} and others == {None}:
        return NOT_COMMITTED
    if all(set(names) <= SIGNED for names in negative.values()) and others == {0}:
        return BEYOND
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--tools", type=Path, help="the directory of the three programs")
    parser.add_argument("--without-tools", action="store_true", help="Odradek's programs alone")
    parser.add_argument("--all", action="store_true", help="print the status of every group")
    options = parser.parse_args()
    try:
        names = () if options.without_tools else lag_tools.PROGRAMS
        tools = {name: lag_tools.find(name, options.tools) for name in names}
    except ToolMissing as missing:
        print(missing, file=sys.stderr)
        return 2
    prefix = f"odradek-lag-comparison-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix) as directory:
        outcome = LagComparison(Path(directory), tools).run()
    if options.all:
        print("\n".join(outcome.statuses))
    print(outcome)
    return 1 if outcome.unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
