"""The parts of scripts/ that can be tried without installing anything."""

import os
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

_SCRIPTS = Path(__file__).parents[2] / "scripts"
# The pipe is opened once, for both directions: opened again for each step, it could still have the
# writer of the step before, and `read` would end with that writer instead of with a line.
_WAITING = """
set -euo pipefail
. "{scripts}/progress.sh"
exec 3<>go
(for step in one two; do echo "Downloading $step" >>log; read -r <&3; done; exit {code}) &
wait_with_progress $! log
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_long_installation_shows_what_it_does(tmp_path: Path, code: int) -> None:
    os.mkfifo(tmp_path / "go")
    with subprocess.Popen(
        ["bash", "-c", _WAITING.format(scripts=_SCRIPTS, code=code)],
        cwd=tmp_path,
        env={**os.environ, "PROGRESS_INTERVAL_S": "0"},
        stdout=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stdout is not None
        for step in ("one", "two"):
            while not waiting.stdout.readline().endswith(f" s  Downloading {step}\n"):
                assert waiting.poll() is None
            (tmp_path / "go").write_text("\n")
        waiting.stdout.read()
        assert waiting.wait(60) == code


def test_the_demo_measures_the_pause_and_not_the_answers_that_were_on_their_way() -> None:
    spec = spec_from_file_location("failover", _SCRIPTS / "failover.py")
    assert spec is not None
    assert spec.loader is not None
    failover = module_from_spec(spec)
    spec.loader.exec_module(failover)
    # Killed at 10.0; the answer at 10.0001 was sent before.
    assert failover.longest_pause_s([9.9, 10.0001, 10.1201, 10.125], 10.0) == pytest.approx(0.12)
    assert failover.longest_pause_s([9.9], 10.0) is None
