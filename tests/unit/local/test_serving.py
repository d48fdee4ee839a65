"""What a command that starts brokers says about their settings."""

import pytest

from odradek.local.serving import settings_from
from odradek.tools.failures import CommandFailed


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
