"""Mistakes that commands find before they start Java, each told in one line.

Java is a script here that only tells its version, and notes if it is started for anything else.
"""

import json
import os
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.protocol.types import TopicPartition
from odradek.spark.archive.entries import Entry
from odradek.spark.pipelines.state import FINISHED, PipelineDirectory, PipelineState
from odradek.testing import Cluster
from odradek.world.disk import OsDisk

_JAVA = """#!/bin/sh
case "$*" in
  -version) echo 'openjdk version "17.0.1" 2021-10-19' >&2;;
  *) touch "{started}"; exit 1;;
esac
"""
_PIPELINE = """
bootstrap = "{servers}"

[source]
topic = "clicks"
{source}

[[transform]]
python = "steps.py:{function}"

[sink]
topic = "copies"
{sink}
"""
_CREATE = "create it with: odradek topics --create --topic"
_NOT_MADE = "and the brokers do not create it"
_MEAN = "did you mean"
_LOST = "records may be lost. To go on without them, set option('failOnDataLoss', 'false')"
_STEPS = "def only_busy(frame):\n    return frame\n"


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Cluster(settings={"auto.create.topics.enable": "false"}) as cluster:
        cluster.create_topic("clicks")
        cluster.create_topic("copies")
        yield cluster.bootstrap


@pytest.fixture
def nobody() -> str:
    """An address where no broker listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(autouse=True)
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The note that Java was started, which must not appear."""
    note = tmp_path / "java-was-started"
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_JAVA.format(started=note))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
    monkeypatch.delenv("ODRADEK_DEBUG", raising=False)
    yield note
    assert not note.exists(), "Java was started"


def told(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Runs a command that fails, and returns its only line."""
    assert main(words) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    return line


def write_pipeline(tmp_path: Path, servers: str, **parts: str) -> str:
    (tmp_path / "steps.py").write_text(_STEPS)
    file = tmp_path / "pages.toml"
    parts = {"source": "", "sink": "", "function": "only_busy", **parts}
    text = _PIPELINE.format(servers=servers, **parts)
    for name in ("clicks", "copies"):
        if topic := parts.get(name):
            text = text.replace(f'topic = "{name}"', f'topic = "{topic}"')
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"clicks": "click"}, "[source]: topic click does not exist; did you mean clicks?"),
        (
            {"sink": "[spark]\nspark.task.cpu = 1"},
            "[spark]: there is no setting spark.task.cpu of Spark; did you mean spark.task.cpus?",
        ),
        (
            {"clicks": "purchases"},
            f"[source]: topic purchases does not exist; {_CREATE} purchases",
        ),
        (
            {"copies": "nowhere"},
            f"[sink]: topic nowhere does not exist, {_NOT_MADE}; {_CREATE} nowhere",
        ),
        (
            {"source": 'options = { startngOffsets = "earliest" }'},
            "[source]: there is no option startngOffsets; did you mean startingOffsets?",
        ),
        (
            {"source": 'options = { "kafka.isolation.levl" = "read_committed" }'},
            f"[source]: there is no setting kafka.isolation.levl; {_MEAN} kafka.isolation.level?",
        ),
        (
            {"sink": 'options = { delveryGuarantee = "at-least-once" }'},
            "[sink]: there is no option delveryGuarantee; did you mean deliveryGuarantee?",
        ),
        (
            {"source": 'starting = \'{"clicks": {"0": 100}}\''},
            f"[source]: startingOffsets names offset 100 of clicks [0], which ends at 0; {_LOST}",
        ),
        (
            {"sink": 'trigger = "5 secs ago"'},
            (
                'trigger = "5 secs ago" in [sink] is not a duration that Spark knows'
                ': write "5 seconds"'
            ),
        ),
        (
            {"source": 'value = "json"\nschema = "user strin, page string"'},
            "schema in [source]: column user: there is no type strin; did you mean string?",
        ),
        (
            {"copies": "clicks"},
            "[sink]: topic clicks is also a source, so this would never end; write to another",
        ),
        ({"function": "only_bsy"}, "steps.py has no function only_bsy; did you mean only_busy?"),
    ],
)
def test_a_declared_pipeline(
    tmp_path: Path,
    servers: str,
    parts: dict[str, str],
    line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write_pipeline(tmp_path, servers, **parts)
    data = str(tmp_path / "data")
    assert told(["pipeline", "run", file, "--data", data], capsys) == (
        f"odradek pipeline: {file}: {line}"
    )
    main(["pipeline", "list", "--data", data])
    assert "No pipeline has run" in capsys.readouterr().out


def test_a_pipeline_that_ran_before_says_why_it_does_not_now(
    tmp_path: Path, servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_pipeline(tmp_path, servers, clicks="click")
    data = str(tmp_path / "data")
    directory = PipelineDirectory(OsDisk(), data, "pages")
    directory.claim().release()
    directory.write(PipelineState("pages", file, 17, 1000, FINISHED))
    why = f"{file}: [source]: topic click does not exist; did you mean clicks?"
    told(["pipeline", "run", file, "--data", data], capsys)
    assert main(["pipeline", "status", "pages", "--data", data]) == 1
    assert f"last failure: {why}\n" in capsys.readouterr().out
    kept = json.loads((tmp_path / "data" / "pages" / "state.json").read_text())
    assert (kept["status"], kept["error"]) == ("failed", why)


def test_a_pipeline_without_a_broker_is_told_at_once(
    tmp_path: Path, nobody: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_pipeline(tmp_path, nobody)
    line = told(["pipeline", "run", file, "--once", "--data", str(tmp_path)], capsys)
    assert f"[source]: cannot connect to {nobody}: connection refused; start a broker" in line


def test_files_of_a_pipeline(
    tmp_path: Path, servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_pipeline(tmp_path, servers)
    steps = tmp_path / "steps.py"
    steps.write_text("def only_busy(frame:\n")
    assert "steps.py, line 1: " in told(["pipeline", "run", file], capsys)
    steps.unlink()
    assert f"there is no file {steps}" in told(["pipeline", "run", file], capsys)
    (tmp_path / "taken").write_text("")
    line = told(["pipeline", "run", file, "--master", "locl"], capsys)
    assert line.startswith("odradek pipeline: master locl: must be like local[*], spark://HOST")
    data = str(tmp_path / "taken")
    assert f"--data {data} is a file" in told(["pipeline", "run", file, "--data", data], capsys)
    program = tmp_path / "program.py"
    program.write_text("import os\n\nx = os.nothing\n")
    line = told(["pipeline", "run", str(program)], capsys)
    assert "program.py, line 3: AttributeError: module 'os' has no attribute 'nothing'" in line


def test_an_archive(
    tmp_path: Path, servers: str, nobody: str, capsys: pytest.CaptureFixture[str]
) -> None:
    here = str(tmp_path / "archive")
    words = ["archive", "--to", here, "--bootstrap-server"]
    assert told([*words, servers, "--topic", "click"], capsys) == (
        "odradek archive: topic click does not exist; did you mean clicks?"
    )
    refused = told([*words, nobody, "--topic", "clicks"], capsys)
    assert f"cannot connect to {nobody}: connection refused; start" in refused
    assert told(["archive", "--list", "--to", here], capsys) == (
        f"odradek archive: --to {here} does not exist (here is {os.getcwd()})"
    )
    assert "kafka.bootstrap.servers" not in refused, "that is advice for queries"
    (tmp_path / "empty").mkdir()
    assert "empty holds no archive; `odradek archive --topic NAME --to" in told(
        ["archive", "--list", "--to", f"{tmp_path}/empty"], capsys
    )
    words = ["archive", "--topic", "clicks", "--bootstrap-server", servers, "--to"]
    assert "write s3a://" in told([*words, "s3://bucket/x"], capsys)
    assert "master locl: must be like local[*]" in told([*words, here, "--master", "locl"], capsys)
    (tmp_path / "file").write_text("")
    line = told(["archive", "--to", f"{tmp_path}/file", "--topic", "clicks"], capsys)
    assert line == f"odradek archive: --to {tmp_path}/file is a file, and not a directory"


def test_a_restore(
    tmp_path: Path, servers: str, nobody: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["restore", "--topic", "clicks", "--bootstrap-server"]
    missing = told([*words, servers, "--from", str(tmp_path / "none")], capsys)
    assert f"odradek restore: --from {tmp_path}/none does not exist" in missing
    assert f"--from {tmp_path} holds no archive" in told(
        [*words, servers, "--from", str(tmp_path)], capsys
    )
    log = tmp_path / "_odradek" / "log"
    log.mkdir(parents=True)
    empty = told([*words, nobody, "--from", str(tmp_path)], capsys)
    assert "nothing is archived there yet; odradek archive --topic clicks does" in empty
    entry = Entry(0, "run", "append", 1, offsets=((TopicPartition("clicks", 0), 1),))
    (log / f"{0:020d}.json").write_bytes(entry.to_json())
    other = ["restore", "--topic", "cliks", "--from", str(tmp_path)]
    assert "topic cliks is not archived there; did you mean clicks?" in told(other, capsys)
    refused = told([*words, nobody, "--from", str(tmp_path)], capsys)
    assert f"cannot connect to {nobody}: connection refused; start" in refused


def test_the_picture_of_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["recipe", "sensors", "--png"]
    line = told([*words, f"{tmp_path}/none/x.png"], capsys)
    assert line == (
        f"odradek recipe: --png {tmp_path}/none/x.png: there is no directory {tmp_path}/none"
    )
    assert "is a directory; name a file" in told([*words, str(tmp_path)], capsys)
    monkeypatch.setattr(
        "odradek.spark.prerequisites.find_spec",
        lambda name: None if name == "matplotlib" else find_spec(name),
    )
    assert "-m pip install matplotlib" in told([*words, f"{tmp_path}/x.png"], capsys)
