"""Without Java, or without the extra `spark`, one line says what to install; the rest works."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_ODRADEK = [sys.executable, "-m", "odradek.cli"]
_EXTRA = ("pyspark", "py4j", "pyarrow", "numba", "llvmlite", "numpy")
_PIPELINE = """
[source]
topic = "clicks"
[sink]
topic = "copies"
"""
NEEDS_SPARK = {
    "recipe": ("recipe", "clicks"),
    "pipeline": ("pipeline", "run", "clicks.toml"),
    "archive": ("archive", "--topic", "clicks", "--to", "archive"),
    "archive --list": ("archive", "--list", "--to", "archive"),
    "restore": ("restore", "--from", "archive", "--topic", "clicks"),
}
_SESSION = "from odradek import spark\nspark.session()"


def run(
    words: list[str], where: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, cwd=where, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def no_java(tmp_path: Path) -> dict[str, str]:
    """An environment as of a machine that has never seen Java."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAVA")}
    (tmp_path / "programs").mkdir()
    return kept | {"PATH": str(tmp_path / "programs")}


@pytest.fixture
def no_extra(tmp_path: Path, no_java: dict[str, str]) -> dict[str, str]:
    """The same without the packages of the extra: for `python -S`, which sees no others."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for one in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not one.name.startswith(_EXTRA):
            (packages / one.name).symlink_to(one)
    return no_java | {"PYTHONPATH": f"{_ROOT / 'src'}{os.pathsep}{packages}"}


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """A directory with a pipeline in it."""
    place = tmp_path / "here"
    place.mkdir()
    (place / "clicks.toml").write_text(_PIPELINE)
    return place


@pytest.mark.parametrize("command", NEEDS_SPARK)
def test_a_command_without_java_says_what_to_install(
    command: str, where: Path, no_java: dict[str, str]
) -> None:
    done = run([*_ODRADEK, *NEEDS_SPARK[command]], where, no_java)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"odradek {NEEDS_SPARK[command][0]}: Spark needs Java 17 or newer")
    assert "apt-get install openjdk-17-jre-headless" in line
    assert [one.name for one in where.iterdir()] == ["clicks.toml"], "something was left behind"


def test_a_session_without_java_says_what_to_install(where: Path, no_java: dict[str, str]) -> None:
    done = run([sys.executable, "-c", _SESSION], where, no_java)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("odradek.spark.prerequisites.JavaMissing: Spark needs Java 17 or newer")


@pytest.mark.parametrize("command", NEEDS_SPARK)
def test_a_command_without_the_extra_says_what_to_install(
    command: str, where: Path, no_extra: dict[str, str]
) -> None:
    words = [sys.executable, "-S", "-m", "odradek.cli", *NEEDS_SPARK[command]]
    done = run(words, where, no_extra)
    assert done.returncode == 1, done.stderr
    name = NEEDS_SPARK[command][0]
    line = f"pyspark is not installed: {sys.executable} -m pip install '{_ROOT}[spark]'"
    assert done.stderr == f"odradek {name}: {line}\n"


def test_a_session_without_the_extra_says_what_to_install(
    where: Path, no_extra: dict[str, str]
) -> None:
    done = run([sys.executable, "-S", "-c", _SESSION], where, no_extra)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "odradek.spark.prerequisites.PackagesMissing: pyspark is not installed:"
        f" {sys.executable} -m pip install '{_ROOT}[spark]'"
    )


@pytest.mark.parametrize("scenario", ["scenarios.chaos", "scenarios.exactly_once", "fuzz"])
def test_a_scenario_without_its_packages_says_what_to_install(
    scenario: str, no_extra: dict[str, str]
) -> None:
    packages = Path(no_extra["PYTHONPATH"].rpartition(os.pathsep)[2])
    for one in packages.glob("confluent_kafka*"):
        one.unlink()
    done = run([sys.executable, "-S", "-m", f"tests.{scenario}"], _ROOT, no_extra)
    assert done.returncode == 1
    assert done.stderr == (
        f"confluent_kafka is not installed: {sys.executable} -m pip install '{_ROOT}[dev]'\n"
    )


_WORK = """
from odradek.client.sync import Consumer, Producer
from odradek.protocol.types import TopicPartition
from odradek.testing import Cluster

with Cluster() as cluster:
    topic = cluster.create_topic()
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send(topic, b"without Spark")
        producer.flush()
    with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        print(next(iter(consumer)).value.decode())
"""


def test_everything_else_works(where: Path, no_extra: dict[str, str]) -> None:
    done = run([sys.executable, "-S", "-c", _WORK], where, no_extra)
    assert done.stdout == "without Spark\n", done.stderr
    for words in (["pipeline", "list"], ["--help"], ["doctor", "--help"]):
        done = run([sys.executable, "-S", "-m", "odradek.cli", *words], where, no_extra)
        assert (done.returncode, done.stderr) == (0, "")
