"""The flags of `odradek client-metrics`; tests/conformance/test_client_telemetry.py runs it."""

import pytest

from odradek.cli.main import main


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("", "exactly one of --alter, --delete, --describe, --list"),
        ("--alter --list", "exactly one of"),
        ("--alter --metrics *", "--alter needs --name NAME or --generate-name"),
        ("--alter --name a", "--alter needs --metrics, --interval or --match"),
        ("--alter --name a --generate-name --metrics *", "not both"),
        ("--delete", "--delete needs --name NAME"),
        ("--list --name a", "--describe --name NAME"),
        ("--describe --interval 100", "belong to --alter"),
    ],
)
def test_flags_that_do_not_go_together(
    flags: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["client-metrics", *flags.split()]) == 2
    assert told in capsys.readouterr().err
