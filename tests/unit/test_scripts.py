"""The parts of scripts/ that can be tried without installing anything."""

import json
import os
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pyte
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


def test_a_misspelt_extra_is_refused_before_anything_is_installed() -> None:
    """pip would warn of it in a log that is thrown away, and install the rest."""
    done = subprocess.run(
        [str(_SCRIPTS / "setup"), "sparc"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("setup: there is no extra 'sparc'; there are: spark ")


def test_the_extras_are_listed() -> None:
    done = subprocess.run(
        [str(_SCRIPTS / "setup"), "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: scripts/setup [EXTRA ...]")
    assert " platform " in done.stdout


def _script(name: str) -> ModuleType:
    spec = spec_from_file_location(name, _SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("--hlp", 2)])
def test_the_demo_installs_nothing_if_it_is_asked_something(word: str, code: int) -> None:
    done = subprocess.run(
        [str(_SCRIPTS / "demo"), word], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert done.stderr.startswith("usage: scripts/demo (it takes no arguments")


def test_failed_tests_are_named_without_their_groups() -> None:
    failed = {
        "tests/a.py::test_a@postgres": True,
        "tests/a.py::test_b[x@y]": True,
        "tests/a.py::test_b[x@y]@two-groups": True,
    }
    found = _script("failed_tests").failed_tests(json.dumps(failed))
    assert found == ["tests/a.py::test_a", "tests/a.py::test_b[x@y]", "tests/a.py::test_b[x@y]"]


def test_the_demo_measures_the_pause_and_not_the_answers_that_were_on_their_way() -> None:
    failover = _script("failover")
    # Killed at 10.0; the answer at 10.0001 was sent before.
    assert failover.longest_pause_s([9.9, 10.0001, 10.1201, 10.125], 10.0) == pytest.approx(0.12)
    assert failover.longest_pause_s([9.9], 10.0) is None


def test_a_photograph_shows_the_cells_of_the_terminal() -> None:
    script = _script("photograph_terminals")
    screen = pyte.Screen(20, 2)
    pyte.ByteStream(screen).feed(
        b"\x1b[1mLAG\x1b[0m  \x1b[7m 1 \x1b[0m\r\n<a> \x1b[1;31mERR\x1b[0m"
    )
    texts, marks = [], []
    for element in ElementTree.fromstring(script.draw(screen, "top & lag")):
        if element.tag.endswith("text"):
            texts.append((element.text, element.get("font-weight"), element.get("fill")))
        elif element.tag.endswith("rect"):
            marks.append(element.get("width"))
    assert texts == [
        ("LAG", "bold", script._FOREGROUND),
        (" 1 ", None, script._BACKGROUND),
        ("<a> ", None, script._FOREGROUND),
        ("ERR", "bold", script._COLOURS["red"]),
    ]
    assert marks == ["180", "22.2"]


@pytest.mark.parametrize("name", ["top", "lag"])
@pytest.mark.parametrize("size", ["80x24", "200x50"])
def test_the_photographs_are_there(name: str, size: str) -> None:
    picture = (_SCRIPTS.parent / "docs" / f"{name}-{size}.svg").read_text()
    assert f"odradek {name}" in picture
    assert "search-index" in picture
