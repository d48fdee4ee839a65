"""Which generations of clients there are, how each is had, and the page that shows what they do.

Every generation is a program of its own that tells the same story (`python_client.py` says which)
against a running broker. What a generation needs is fetched once into `.cache/`: jars by Maven,
Python clients by pip into a directory each, without what they depend on.

`python -m tests.conformance.generations docs/reference/clients.md` runs all of them and writes the
page; `test_client_generations.py` runs them one by one and compares each with its row there.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.apache_kafka import (
    CACHE_DIRECTORY,
    KAFKA_VERSION,
    SHORT_TOOL_JVM_FLAGS,
    Artifact,
    install_jars,
    java_program,
    javac_program,
    require_program,
)
from benchmarks.broker_process import ToolMissing

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "clients.md"
STEPS = (
    "create",
    "describe",
    "produce",
    "consume",
    "group",
    "group-848",
    "transaction",
    "delete",
)
# A broker for short stories: groups do not wait for more members, few internal partitions.
BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]
_JAVA_SOURCE = _ROOT / "tests" / "java" / "GenerationStory.java"
_MODULE = (sys.executable, "-m")
_TIMEOUT_S = 240.0
_OLDEST_JAVA = "2.1.0"

Command = tuple[list[str], Mapping[str, str]]
"""What to run, before the address and the name of the story, and its environment."""


@dataclass(frozen=True)
class Generation:
    client: str
    version: str
    command: Callable[[str], Command]

    @property
    def name(self) -> str:
        return f"{self.client} {self.version}".strip()


# Java


def _jars(version: str) -> Path:
    clients = Artifact("org.apache.kafka", "kafka-clients", version)
    return install_jars(f"kafka-clients-{version}", [clients])


def _java_classes() -> Path:
    """The story, compiled once against the oldest generation."""
    digest = hashlib.sha256(_JAVA_SOURCE.read_bytes()).hexdigest()[:16]
    directory = CACHE_DIRECTORY / "generations" / f"classes-{digest}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers may come here at once
        if not directory.exists():
            made = directory.with_suffix(".made")
            command = [javac_program(), "-nowarn", "-d", str(made)]
            command += ["-cp", f"{_jars(_OLDEST_JAVA)}/*", str(_JAVA_SOURCE)]
            subprocess.run(command, check=True, capture_output=True)
            made.rename(directory)
    return directory


def _java(version: str) -> Command:
    path = f"{_java_classes()}:{_jars(version)}/*"
    flags = [*SHORT_TOOL_JVM_FLAGS, "-Xshare:auto", "-cp", path]
    return [java_program(), *flags, "GenerationStory"], {}


# Python


def install_python_client(requirement: str, *options: str) -> Path:
    """The library alone in a directory of the cache, without what it depends on."""
    directory = CACHE_DIRECTORY / "python-clients" / requirement
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            made = directory.with_name(f"{directory.name}.made")
            shutil.rmtree(made, ignore_errors=True)
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", *options]
            command += ["--only-binary", ":all:", "--target", str(made), requirement]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                reason = done.stderr.strip().splitlines()[-1:]
                raise ToolMissing(f"pip could not install {requirement}: {reason}")
            made.rename(directory)
    return directory


def _python(library: str, distribution: str) -> Callable[[str], Command]:
    def command(version: str) -> Command:
        if distribution == "kafka-python" and version < "2.0.3" and sys.version_info >= (3, 12):
            raise ToolMissing(f"kafka-python {version} needs Python 3.11")
        directory = install_python_client(f"{distribution}=={version}")
        program = [sys.executable, str(_HERE / "python_client.py"), library]
        return program, {"PYTHONPATH": str(directory)}

    return command


def _old_librdkafka(version: str) -> Command:
    """The library out of a wheel for an older Python, driven through its C functions."""
    python = ("--python-version", "3.9", "--implementation", "cp")
    directory = install_python_client(f"confluent-kafka=={version}", *python)
    (library,) = directory.glob("confluent_kafka.libs/librdkafka-*.so.1")
    return [*_MODULE, f"{__package__}.librdkafka_client", str(library)], {}


def _kcat(_: str) -> Command:
    program = require_program("kcat", "kcat", "kcat")
    return [*_MODULE, f"{__package__}.kcat_client", program], {}


_CONFLUENT = _python("confluent", "confluent-kafka")
GENERATIONS = (
    *(
        Generation("Java", version, _java)
        for version in (_OLDEST_JAVA, "2.8.2", "3.3.2", "3.7.2", "3.9.1", KAFKA_VERSION)
    ),
    *(Generation("librdkafka", version, _old_librdkafka) for version in ("1.8.2", "1.9.2")),
    *(Generation("librdkafka", version, _CONFLUENT) for version in ("2.0.2", "2.6.1", "2.16.0")),
    *(
        Generation("kafka-python", version, _python("kafka-python", "kafka-python"))
        for version in ("2.0.2", "3.0.12")
    ),
    *(
        Generation("aiokafka", version, _python("aiokafka", "aiokafka"))
        for version in ("0.10.0", "0.14.0")
    ),
    Generation("kcat", "", _kcat),
)


# Stories and the page


def tell(generation: Generation, bootstrap: str) -> dict[str, str]:
    """Runs the story; the outcome of each step. Raises `ToolMissing` if it cannot be had here."""
    command, environment = generation.command(generation.version)
    name = f"{generation.client}-{uuid.uuid4().hex[:8]}"
    done = subprocess.run(
        [*command, bootstrap, name],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
        cwd=_ROOT,
        env={**os.environ, **environment},
    )
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    outcomes = {step: outcome for step, _, outcome in lines if step in ("version", *STEPS)}
    said = outcomes.pop("version", "")
    if tuple(outcomes) != STEPS or done.returncode != 0:
        raise RuntimeError(f"{generation.name} ended early:\n{done.stdout}\n{done.stderr}")
    if not said.startswith(generation.version):
        raise RuntimeError(f"{generation.name} says that it is {said}")
    return outcomes


def row(generation: Generation, outcomes: Mapping[str, str]) -> str:
    """The line of the page."""
    shown = {"ok": "yes", "absent": "-"}
    cells = [generation.client, generation.version or "Debian's"]
    for step in STEPS:
        outcome = outcomes[step]
        cells.append(shown.get(outcome, outcome.removeprefix("ok ")))
    return f"| {' | '.join(cells)} |"


_INTRODUCTION = """\
# Clients

Generations of clients that are run against Odradek in continuous integration. Each of them makes a
topic, describes it, produces with `acks` 0, 1 and all and with every codec, reads everything back,
reads and commits in a group and goes on in a second member, does the same in a group of the new
protocol (KIP-848), commits one transaction with offsets after aborting another, and deletes the
topic.

`yes` means that the step did what it should, `-` that this generation does not have it; codecs are
named. The oldest generations are those that Apache Kafka 4 serves too (KIP-896). librdkafka 2
is run through confluent-kafka. There are no wheels of that with librdkafka 1 for the Pythons of
today, so its C functions are called. Against Apache Kafka 4.3.1 the table is the same
(`--apache` runs it there).

This page is generated: `python -m tests.conformance.generations docs/reference/clients.md`.
"""
_HEAD = (
    "Client",
    "Version",
    "Create topic",
    "Describe",
    "Produce, with codecs",
    "Consume",
    "Group",
    "Group (KIP-848)",
    "Transactions",
    "Delete topic",
)


def page(rows: Iterable[str]) -> str:
    head = [f"| {' | '.join(_HEAD)} |", f"|{' --- |' * len(_HEAD)}"]
    return _INTRODUCTION + "\n" + "\n".join([*head, *rows]) + "\n"
