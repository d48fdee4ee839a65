"""The picture of the rooms in docs/architecture.md must show the imports of the code."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_picture_of_the_rooms_is_current() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "scripts" / "draw_rooms.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
