"""What a command that starts brokers says about their settings."""

from pathlib import Path

import pytest

from odradek.local.growth import GROWTH_LOCK, Growth
from odradek.local.serving import last_line, settings_from
from odradek.tools.failures import CommandFailed
from odradek.world.disk import OsDisk


def test_several_brokers_say_the_same_warning_once(capsys: pytest.CaptureFixture[str]) -> None:
    said: set[str] = set()
    for number in ("1", "2", "3"):
        file = {"node.id": number, "num.io.threads": "9", "log.dir": "/a", "log.dirs": "/b"}
        settings_from(file, [], said=said)
    assert capsys.readouterr().err.splitlines() == [
        "warning: log.dir=/a is ignored: log.dirs=/b wins",
        (
            "warning: set, but without effect here: num.io.threads (a broker is one process on one"
            " event loop)"
        ),
    ]


def test_an_unknown_name_is_a_warning_in_a_file_and_an_error_on_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings_from({"num.partitons": "3"}, [])
    assert "did you mean num.partitions?" in capsys.readouterr().err
    with pytest.raises(CommandFailed, match=r"did you mean num\.partitions"):
        settings_from({}, ["num.partitons=3"])


def test_a_broker_that_becomes_a_cluster_says_where_it_goes_on(tmp_path: Path) -> None:
    data = str(tmp_path)
    assert last_line(None) == last_line(data) == "odradek has stopped"
    Growth(data, 3, "127.0.0.1", 9092).write(OsDisk())
    assert last_line(data) == "odradek has stopped"
    lock = OsDisk().lock(f"{data}/{GROWTH_LOCK}")
    said = last_line(data)
    lock.release()
    assert said.startswith(
        "odradek has stopped here and goes on in the background, as 3 brokers at"
    )
    assert said.endswith(f"; odradek local stop --data {data} stops it")
    assert last_line(data) == "odradek has stopped", "a command that was interrupted is not at work"
