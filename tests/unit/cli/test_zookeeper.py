"""`odradek zookeeper FILE` refuses what ZooKeeper would answer with a stack trace."""

from pathlib import Path

import pytest

from odradek.cli.main import main


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
