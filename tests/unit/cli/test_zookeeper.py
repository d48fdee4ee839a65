"""`odradek zookeeper FILE` refuses what ZooKeeper would answer with a stack trace."""

import socket
from pathlib import Path

import pytest

from odradek.cli.main import main
from odradek.cli.running import up
from odradek.tools import hints


def ensemble(directory: Path) -> str:
    path = directory / "zookeeper.properties"
    path.write_text(f"dataDir={directory}\nclientPort=2181\nserver.1=a:1:2\nserver.2=b:1:2\n")
    return str(path)


def test_a_server_of_an_ensemble_needs_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ensemble(tmp_path)
    assert main(["zookeeper", path]) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path}/myid does not say which of them this is" in said
    assert f"echo 1 > {tmp_path}/myid" in said
    (tmp_path / "myid").write_text("7\n")
    assert main(["zookeeper", path]) == 1
    assert f"{tmp_path}/myid says '7', and {path} has no server.7" in capsys.readouterr().err


def test_brokers_that_wait_for_zookeeper_say_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for six seconds: it may be started together with them."""
    monkeypatch.setattr(hints, "_hinted", set())
    monkeypatch.setattr(up, "_run_cluster", lambda _: 0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert main(["up", "--brokers", "3", "--zookeeper", f"{address}/here"]) == 0
    assert not capsys.readouterr().err
    assert main(["up", "--brokers", "3", "--zookeeper", f"{address}/here"]) == 0
    assert capsys.readouterr().err == (
        f"hint: no ZooKeeper server answers at {address}/here yet (connection refused); waiting\n"
    )


def test_a_port_that_is_taken_is_told_before_java_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = tmp_path / "zookeeper.properties"
        file.write_text(f"dataDir={tmp_path}\nclientPort={port}\nclientPortAddress=127.0.0.1\n")
        flags = ("--port", str(port), "--data", str(tmp_path / "data"))
        for words in (flags, (str(file),)):
            assert main(["zookeeper", *words]) == 1
            said = capsys.readouterr().err
            assert f"cannot listen at 127.0.0.1:{port}: address already in use; if a" in said
