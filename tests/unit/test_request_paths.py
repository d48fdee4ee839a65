"""docs/architecture.md says which files a produce and a fetch pass through: a broker must agree."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _documented(kind: str) -> set[str]:
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.split(f"## The path of a {kind} request")[1].split("\n## ")[0]
    block = section.split("```")[1]
    return set(re.findall(r"^ *([\w/]+\.py)", block, re.MULTILINE))


@pytest.mark.parametrize("kind", ["produce", "fetch"])
def test_requests_pass_through_the_documented_files(kind: str) -> None:
    traced = subprocess.run(
        [sys.executable, ROOT / "scripts" / "trace_request.py", kind],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    passed = {line.split()[0] for line in traced.stdout.splitlines()}
    assert _documented(kind) - passed == set()
