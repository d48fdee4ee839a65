"""The line that installs an extra: from a clone, or after an installation."""

import shutil
import subprocess
import sys
from pathlib import Path

import odradek
from odradek.world.installing import install_line


def test_the_line_that_installs_an_extra_works_from_a_clone() -> None:
    clone = Path(__file__).parents[3]
    assert install_line("spark") == f"{sys.executable} -m pip install '{clone}[spark]'"


def test_and_after_an_installation_from_a_clone(tmp_path: Path) -> None:
    """The package lies somewhere else then, but pip has noted where it came from."""
    packages, clone = tmp_path / "packages", tmp_path / "my clone"
    clone.mkdir()
    shutil.copytree(
        Path(odradek.__file__).parent, packages / "odradek", ignore=lambda *_: {"spark", "cli"}
    )
    (packages / "odradek-1.dist-info").mkdir()
    noted = f'{{"url": "{clone.as_uri()}", "dir_info": {{}}}}'
    (packages / "odradek-1.dist-info" / "direct_url.json").write_text(noted)
    (packages / "odradek-1.dist-info" / "METADATA").write_text("Name: odradek\nVersion: 1\n")
    program = "from odradek.world.installing import install_line; print(install_line('spark'))"
    shown = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown == f"{sys.executable} -m pip install '{clone}[spark]'\n"


def test_no_message_names_the_package_of_the_index() -> None:
    """What pip would find there under this name need not be this package: `install_line` knows."""
    sources = Path(odradek.__file__).parent.rglob("*.py")
    wrong = [str(source) for source in sources if "pip install 'odradek" in source.read_text()]
    assert wrong == []
