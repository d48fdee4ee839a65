"""The systemd units, and the files that are installed with them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, obeyed, properties, tool

SYSTEMD = DEPLOY / "systemd"
BROKER_UNITS = ("odradek.service", "odradek@.service")
UNITS = (
    *BROKER_UNITS,
    "odradek-schema-registry.service",
    "odradek-rest.service",
    "odradek-connect.service",
)
COMMAND = "/opt/odradek/bin/odradek"
# What `systemd-analyze security` calls OK; 10 is a unit without any protection.
_MAX_EXPOSURE = 2.0


def _unit(name: str) -> dict[str, list[str]]:
    """Returns the values of a unit's settings, by name; a setting may be given several times."""
    values: dict[str, list[str]] = {}
    for line in (SYSTEMD / name).read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            setting, _, value = line.partition("=")
            values.setdefault(setting, []).append(value)
    return values


@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    copy = tmp_path / name
    # The command must exist for the check, and need not be installed.
    copy.write_text((SYSTEMD / name).read_text().replace(COMMAND, sys.executable))
    checked = subprocess.run(
        [tool("systemd-analyze"), "verify", "--man=no", copy],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.mark.parametrize("name", UNITS)
def test_the_unit_is_protected(name: str) -> None:
    checked = subprocess.run(
        [
            tool("systemd-analyze"),
            "security",
            "--offline=true",
            f"--threshold={_MAX_EXPOSURE * 10:.0f}",
            SYSTEMD / name,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout[-300:] + checked.stderr


@pytest.mark.parametrize("name", BROKER_UNITS)
def test_the_broker_tells_systemd_how_it_is(name: str) -> None:
    unit = _unit(name)
    assert unit["Type"] == ["notify"]
    assert unit["NotifyAccess"] == ["main"]
    assert int(unit["WatchdogSec"][0]) > 0
    assert unit["Restart"] == ["on-failure"]  # The end by a watchdog is such a failure.


def test_the_two_units_differ_in_the_instance_only() -> None:
    one = (SYSTEMD / "odradek.service").read_text()
    many = (SYSTEMD / "odradek@.service").read_text()
    same = many.replace("/etc/odradek/%i.properties", "/etc/odradek/server.properties")
    for part in (" (%i)", "/%i", "-%i"):
        same = same.replace(part, "")
    assert same == one


def test_the_directories_are_those_of_the_settings() -> None:
    file = SYSTEMD / "server.properties"
    settings = obeyed(properties(file))
    unit = _unit("odradek.service")
    assert unit["ExecStart"] == [f"{COMMAND} broker /etc/odradek/{file.name}"]
    assert settings.data_directories == (f"/var/lib/{unit['StateDirectory'][0]}",)
    assert settings.application_log_directory == f"/var/log/{unit['LogsDirectory'][0]}"
    made = [
        line.split()[1]
        for line in (SYSTEMD / "odradek.tmpfiles.conf").read_text().splitlines()
        if line.startswith("d ")
    ]
    assert made == ["/etc/odradek", "/var/lib/odradek", "/var/log/odradek"]
    assert "/var/log/odradek/*.log" in (DEPLOY / "logrotate/odradek").read_text()


def test_every_line_of_the_settings_is_obeyed_also_the_examples() -> None:
    obeyed(properties(SYSTEMD / "server.properties", with_examples=True))


def test_the_user_of_the_unit_is_made() -> None:
    user = _unit("odradek.service")["User"][0]
    lines = (SYSTEMD / "odradek.sysusers.conf").read_text().splitlines()
    assert any(line.startswith(f"u {user} ") for line in lines)
    checked = subprocess.run(
        [tool("systemd-sysusers"), "--dry-run", SYSTEMD / "odradek.sysusers.conf"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
