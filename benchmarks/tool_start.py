"""How soon each command answers: every `--help`, and each tool that asks a running broker.

    python -m benchmarks.tool_start [--rounds N] [--json]

Each command line runs as a process of its own, as a user would type it, on the bytecode that an
installation has. The rounds go through all lines in turn, and the figures are minima, so that other
work on the machine matters little: the time to the first byte of output, and the CPU time of the
whole process, in milliseconds and as a multiple of `python -c pass` in the same run. A star marks a
first output that is later than the limit.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.broker_process import odradek_broker, odradek_program
from odradek.cli.commands import COMMANDS

BASELINE: Final = "python -c pass"
MAX_HELP_MS: Final = 100
MAX_ANSWER_MS: Final = 150

# What each tool is asked. `B` stands for the address of the broker, `DATA` for its directory.
ASKED: Final = (
    "topics --list B",
    "topics --describe B",
    "configs --describe --topic T B",
    "get-offsets --topic T B",
    "acls --list B",
    "consumer-groups --list B",
    "consumer-groups --describe --group G B",
    "groups --list B",
    "top --once --interval 0 B",
    "transactions B list",
    "console-consumer --topic T --from-beginning --max-messages 1 B",
    "verifiable-producer --topic T --max-messages 1 B",
    "verifiable-consumer --topic T --group-id V --max-messages 1 B",
    "get --topic T --key one B",
    "cluster cluster-id B",
    "cluster list-endpoints B",
    "broker-api-versions B",
    "leader-election --election-type preferred --all-topic-partitions B",
    "reassign-partitions --list B",
    "replica-verification --topics-include T B",
    "log-dirs --describe B",
    "doctor B",
    "sizing --rate 10MB",
    "producer-perf-test --topic T --num-records 1 --record-size 10 --throughput -1 B",
    "zookeeper-shell DATA ls /",
    "dump-log --files DATA/T-0/00000000000000000000.log",
    "local status",
    "pipeline list",
    "completion bash",
)


class Sample(NamedTuple):
    first_output_ms: float
    cpu_ms: float


def sample(command: list[str], environment: dict[str, str]) -> Sample:
    start_s = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    process.stdout.read(1)
    first_s = time.perf_counter() - start_s
    process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Sample(first_s * 1000, (usage.ru_utime + usage.ru_stime) * 1000)


def command_lines(bootstrap: str, data: Path) -> dict[str, list[str]]:
    """Returns the words of each command by the line that the table shows."""
    program = odradek_program()
    lines = {BASELINE: [sys.executable, "-c", "pass"], "odradek --help": [program, "--help"]}
    for name in COMMANDS:
        lines[f"odradek {name} --help"] = [program, name, "--help"]
    for line in ASKED:
        words = line.replace("DATA", str(data)).split()
        at = words.index("B") if "B" in words else len(words)
        words[at : at + 1] = ["--bootstrap-server", bootstrap] if at < len(words) else []
        lines[f"odradek {line.replace(' B', '')}"] = [program, *words]
    return lines


def prepare(bootstrap: str) -> None:
    """Makes a topic with a record and a group."""
    produce = "odradek console-producer --topic T --reader-property parse.key=true"
    for line in (
        "odradek topics --create --topic T --partitions 1",
        f"printf 'one\\tfirst\\n' | {produce}",
        "odradek console-consumer --topic T --group G --from-beginning --max-messages 1",
    ):
        program = line.replace("odradek", odradek_program(), 1)
        command = f"{program} --bootstrap-server {bootstrap}"
        subprocess.run(command, shell=True, check=True, capture_output=True)


def measure(rounds: int) -> dict[str, Sample]:
    with (
        tempfile.TemporaryDirectory(prefix="tool-start-") as name,
        odradek_broker(Path(name)) as broker,
    ):
        prepare(broker.bootstrap)
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{name}/bytecode"}
        # Some machines set it, and then every start compiles all sources.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        lines = command_lines(broker.bootstrap, broker.data_directory)
        for command in lines.values():
            sample(command, environment)
        samples = [
            {line: sample(command, environment) for line, command in lines.items()}
            for _ in range(rounds)
        ]
    return {
        line: Sample(
            min(figures[line].first_output_ms for figures in samples),
            min(figures[line].cpu_ms for figures in samples),
        )
        for line in lines
    }


def print_table(figures: dict[str, Sample]) -> None:
    baseline_ms = figures[BASELINE].cpu_ms
    print(f"{'first output':>13}{'CPU':>10}{'multiple':>10}")
    for line, figure in figures.items():
        limit_ms = MAX_HELP_MS if line.endswith("--help") else MAX_ANSWER_MS
        late = "*" if figure.first_output_ms > limit_ms else " "
        print(
            f"{figure.first_output_ms:>9.0f} ms{late}{figure.cpu_ms:>7.0f} ms"
            f"{figure.cpu_ms / baseline_ms:>9.1f}x  {line}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.rounds)
    if options.json:
        print(json.dumps({line: figure._asdict() for line, figure in figures.items()}, indent=2))
    else:
        print_table(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
