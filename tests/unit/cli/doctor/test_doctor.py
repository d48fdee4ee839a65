"""The check-up, where it can be told from the outside."""

import json
from pathlib import Path

import pytest

from odradek.cli.doctor.findings import Findings
from odradek.cli.doctor.machine import check_machine, mount_of
from odradek.local.supervisor import Restarts

MOUNTS = [
    ["/dev/a", "/", "ext4", "rw,relatime", "0", "0"],
    ["tmpfs", "/dev/shm", "tmpfs", "rw", "0", "0"],
    ["/dev/b", "/data", "xfs", "rw", "0", "0"],
    [r"/dev/c", r"/data/with\040space", r"nfs4", r"rw", r"0", r"0"],
    ["/dev/d", "/data", "xfs", "rw,noatime", "0", "0"],
]


@pytest.mark.parametrize(
    ("place", "mount", "kind"),
    [
        ("/home/me", "/", "ext4"),
        ("/dev/shm/x", "/dev/shm", "tmpfs"),
        ("/database", "/", "ext4"),
        ("/data", "/data", "xfs"),
        ("/data/with space/x", "/data/with space", "nfs4"),
    ],
)
def test_the_mount_that_holds_a_path(place: str, mount: str, kind: str) -> None:
    found = mount_of(place, MOUNTS)
    assert found is not None
    assert found[:2] == (mount, kind)


def test_the_last_mount_over_a_path_counts() -> None:
    assert mount_of("/data/x", MOUNTS) == ("/data", "xfs", "rw,noatime")
    assert mount_of("/data/x", []) is None


def test_only_what_is_wrong_fails(capsys: pytest.CaptureFixture[str]) -> None:
    findings = Findings()
    findings.add("disk", "ok", "much")
    findings.add("swap", "warning", "used")
    assert findings.report(as_json=False) == 0
    assert "1 could be better" in capsys.readouterr().out
    findings.add("clock", "wrong", "past")
    assert findings.report(as_json=True) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert said["findings"][2] == {
        "check": "clock",
        "grade": "wrong",
        "text": "past",
        "type": None,
    }


def test_the_line_to_type_stands_below_its_finding(capsys: pytest.CaptureFixture[str]) -> None:
    findings = Findings()
    findings.add("swap", "warning", "used", "sysctl -w vm.swappiness=1")
    findings.report(as_json=False)
    assert capsys.readouterr().out.splitlines()[:2] == [
        "warning  swap  used",
        "               -> sysctl -w vm.swappiness=1",
    ]


class _SteppedClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s


def test_who_keeps_ending_is_started_less_and_less_often() -> None:
    clock = _SteppedClock()
    restarts = Restarts(clock)
    assert [restarts.next_delay_s() for _ in range(8)] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    clock.now_s += 60
    assert restarts.next_delay_s() == 0.0


@pytest.mark.parametrize(("no_color", "colours"), [("", True), ("1", False)])
def test_colours_may_be_switched_off(
    no_color: str,
    colours: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    findings = Findings()
    findings.add("disk", "ok", "fine")
    findings.report(as_json=False)
    assert ("\x1b[" in capsys.readouterr().out) is colours


def test_a_directory_that_no_broker_has_made_is_called_so(tmp_path: Path) -> None:
    for data, words in (
        (tmp_path, f" free for {tmp_path}"),
        (
            tmp_path / "odradek-data",
            f" free in {tmp_path}; there is no {tmp_path}/",
        ),
    ):
        findings = Findings()
        check_machine(findings, str(data))
        assert any(finding.text.split(" GB")[-1].startswith(words) for finding in findings.all)


def test_a_file_in_place_of_the_data_directory_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    findings = Findings()
    check_machine(findings, str(tmp_path / "file"))
    found = {finding.check: finding for finding in findings.all}
    assert found["disk"].grade == "wrong"
    assert "is a file, and not a directory" in found["disk"].text
