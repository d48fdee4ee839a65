"""`pip install PATH`, where PATH is a clone, installs everything that Odradek needs at run time."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.broker_process import ToolMissing
from tests.guides.terminal import ROOT
from tests.needs import need


def _install(target: Path) -> None:
    """Installs as a user does, except for the dependencies: those are there already."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "--no-deps", "--target", target, ROOT],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    if "No matching distribution found for hatchling" in done.stderr:
        raise ToolMissing("the package index cannot be reached, which has what builds a package")
    assert done.returncode == 0, done.stderr


def test_a_package_from_the_clone(tmp_path: Path) -> None:
    target = tmp_path / "installed"
    need(lambda: _install(target))
    here = {path.relative_to(ROOT / "src") for path in (ROOT / "src" / "odradek").rglob("*.*")}
    there = {path.relative_to(target) for path in (target / "odradek").rglob("*.*")}
    wanted = {path for path in here if "__pycache__" not in path.parts}
    assert wanted - there == set()

    program = "import odradek.cli.main as cli, sys; print(cli.__file__); sys.exit(cli.main(['-V']))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    place, version = done.stdout.splitlines()
    assert Path(place).is_relative_to(target)
    assert version.startswith("odradek ")
