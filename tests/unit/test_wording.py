"""Numbers and their nouns, and that nobody writes them without `counted`; lines that install."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from odradek import wording
from odradek.wording import counted, install_line

SOURCE = Path(__file__).parents[2] / "src" / "odradek"
# A placeholder and a plural noun in one string.
PLURAL = re.compile(
    r"(?<![\w-])(?:\{[^{}\"]*\}|%d) "
    r"(?:partitions|topics|brokers|replicas|members|groups|files|batches|entries|gaps|lines|keys)\b"
)
# Kafka's own words, figures that are never 1, sums in the report of `odradek sizing`, and limits.
ALLOWED = {
    "cli/sizing/sizing.py",
    "cli/sizing/plan.py",
    "cli/replicas/reassign_actions.py",
    "cli/doctor/machine.py",
    "groups/consumer/group.py",
    "groups/consumer/topic_patterns.py",
    "cluster/topics.py",
    "storage/key_index/run.py",
}


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 partitions"), (1, "1 partition"), (2, "2 partitions")]
)
def test_a_noun_agrees_with_its_number(count: int, said: str) -> None:
    assert counted(count, "partition") == said


def test_words_that_follow_agree_too() -> None:
    assert counted(1, "batch is", "batches are") == "1 batch is"
    assert counted(1000, "batch is", "batches are", spec=",") == "1,000 batches are"


def test_messages_use_it() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {match.group()}"
        for path in SOURCE.rglob("*.py")
        if str(path.relative_to(SOURCE)) not in ALLOWED
        for match in PLURAL.finditer(path.read_text())
    ]
    assert found == [], "use odradek.wording.counted"


def test_the_line_that_installs_an_extra_works_from_a_clone() -> None:
    clone = Path(__file__).parents[2]
    assert install_line("spark") == f"{sys.executable} -m pip install '{clone}[spark]'"


def test_and_after_an_installation_from_a_clone(tmp_path: Path) -> None:
    """The package lies somewhere else then, but pip has noted where it came from."""
    packages, clone = tmp_path / "packages", tmp_path / "my clone"
    clone.mkdir()
    shutil.copytree(
        Path(wording.__file__).parent, packages / "odradek", ignore=lambda *_: {"spark", "cli"}
    )
    (packages / "odradek-1.dist-info").mkdir()
    noted = f'{{"url": "{clone.as_uri()}", "dir_info": {{}}}}'
    (packages / "odradek-1.dist-info" / "direct_url.json").write_text(noted)
    (packages / "odradek-1.dist-info" / "METADATA").write_text("Name: odradek\nVersion: 1\n")
    program = "from odradek.wording import install_line; print(install_line('spark'))"
    shown = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown == f"{sys.executable} -m pip install '{clone}[spark]'\n"
