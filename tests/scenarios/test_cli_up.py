"""Starting and stopping a broker by hand, and everything that can keep it from starting."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.scenarios.up_process import COMMAND, running


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def address(line: str) -> str:
    return line.split(" at ")[1].split(" ", maxsplit=1)[0]


def refused(*words: str) -> str:
    """The one line that says why it did not start."""
    done = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def ask(bootstrap: str, *words: str, stdin: str = "") -> str:
    return subprocess.run(
        [*COMMAND, *words, "--bootstrap-server", bootstrap],
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_and_stops_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    with running("up", "--port", "0", cwd=tmp_path) as broker:
        line = first_line(broker)
        host, port = address(line).split(":")
        assert host == "127.0.0.1"
        socket.create_connection((host, int(port)), timeout=10).close()
        broker.send_signal(number)
        rest, complaints = broker.communicate(timeout=30)
    assert (rest, complaints) == ("odradek has stopped\n", "")
    assert broker.returncode == 0
    assert (tmp_path / "odradek-data").is_dir()


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with running("up", "--port", "0", "--data", data) as broker:
        bootstrap = address(first_line(broker))
        ask(bootstrap, "console-producer", "--topic", "kept", stdin="a\nb\n")
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(timeout=30) == 0
    with running("up", "--port", "0", "--data", data) as broker:
        bootstrap = address(first_line(broker))
        shown = ask(bootstrap, "console-consumer", "--topic", "kept", "--from-beginning",
                    "--max-messages", "2")  # fmt: skip
    assert shown == "a\nb\n"


def test_in_memory_nothing_is_written(tmp_path: Path) -> None:
    with running("up", "--memory", "--port", "0", cwd=tmp_path) as broker:
        ask(address(first_line(broker)), "console-producer", "--topic", "t", stdin="x\n")
    assert list(tmp_path.iterdir()) == []


def test_it_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    with running("up", "--memory", "--port", "0", "--until-input-closes") as broker:
        first_line(broker)
        rest, complaints = broker.communicate(timeout=30)  # closes its standard input
    assert (rest, complaints, broker.returncode) == ("odradek has stopped\n", "", 0)


def test_a_file_of_settings(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"node.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/data\n"
        "num.partitions=2\n"
    )
    with running("broker", str(file), "--override", "num.partitions=3") as broker:
        bootstrap = address(first_line(broker))
        ask(bootstrap, "topics", "--create", "--topic", "t")
        shown = ask(bootstrap, "topics", "--describe", "--topic", "t")
    assert "PartitionCount: 3" in shown
    assert "Leader: 7" in shown


def test_a_file_that_names_the_directory_of_a_cluster(tmp_path: Path) -> None:
    """As after `odradek local grow`, if the broker is started as before."""
    (tmp_path / "data" / "broker-1").mkdir(parents=True)
    (tmp_path / "data" / "broker-1" / "server.properties").touch()
    file = tmp_path / "server.properties"
    file.write_text(f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/data\n")
    assert "holds a cluster of 1 broker" in refused("broker", str(file))
    (tmp_path / "data" / ".growing").mkdir()
    assert f"`odradek local grow --data {tmp_path}/data`" in refused("broker", str(file))


def test_the_way_from_one_broker_to_three_is_named(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with running("up", "--port", "0", "--data", data) as broker:
        first_line(broker)
        complaint = refused("up", "--brokers", "3", "--port", "0", "--data", data)
    assert f"`odradek local grow --data {data}`" in complaint
    assert f"`odradek local grow --data {data}`" in refused("local", "start", "--data", data)
    assert "did you mean --data ./odradek-data?" in refused_in(tmp_path, data)


def refused_in(directory: Path, data: str) -> str:
    os.rename(data, directory / "odradek-data")
    done = subprocess.run(
        [*COMMAND, "local", "grow"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    return done.stderr


def test_a_busy_port() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        complaint = refused("up", "--memory", "--port", str(port))
    assert f"port {port} is in use by another program" in complaint
    assert "`odradek up --port " in complaint


@pytest.mark.parametrize("place", ["file", "/proc/odradek", "/dev/null/odradek"])
def test_a_directory_that_cannot_be_written(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    path = os.path.join(tmp_path, place)
    complaint = refused("up", "--port", "0", "--data", path)
    assert f"cannot write to {path}: " in complaint
    assert "--data" in complaint


def test_a_directory_that_another_broker_holds(tmp_path: Path) -> None:
    data = str(tmp_path / "my data")
    with running("up", "--port", "0", "--data", data) as broker:
        address = first_line(broker).split()[4]
        complaint = refused("up", "--port", "0", "--data", data)
        assert f"{data} is in use: a broker runs there at {address}" in complaint
        assert f"(process {broker.pid})" in complaint
        assert f"`odradek server-stop '{data}'`" in complaint


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("num.partitions=many", "num.partitions"),
        ("num.partitons=3", "did you mean num.partitions?"),
        ("num.partitions", "name=value"),
    ],
)
def test_a_bad_setting(override: str, complaint: str) -> None:
    assert complaint in refused("up", "--memory", "--port", "0", "--override", override)


def test_a_file_of_settings_that_is_not_there() -> None:
    assert "there is no file /no/such/file" in refused("broker", "/no/such/file")


def test_a_host_that_is_not_ours() -> None:
    assert "192.0.2.1" in refused("up", "--memory", "--port", "0", "--host", "192.0.2.1")
