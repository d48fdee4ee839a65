"""The pages for users run as scripts, from top to bottom, and show what is printed."""

import re
import tomllib
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from tests.guides.markdown import Block, Kind, blocks
from tests.guides.page import Page
from tests.guides.terminal import ROOT
from tests.guides.transcript import Step
from tests.kdc import require_kerberos
from tests.needs import need

# Pages that are run by another test, or made by a program. The reference is made too, and
# decisions tell how things were.
ELSEWHERE: Final = {
    "docs/client.md": "tests/conformance/test_own_client_guide.py",
    "docs/recipes/retries.md": "tests/conformance/test_recipes.py",
    "docs/performance.md": "scripts/benchmark",
}
# How many blocks of a page cannot be run. A page that is not named here has none.
NOT_RUN: Final = {
    "README.md": 2,
    "CONTRIBUTING.md": 2,
    "docs/archive.md": 2,
    "docs/chaos.md": 2,
    "docs/connect-postgres.md": 3,
    "docs/connect-singer.md": 1,
    "docs/console.md": 1,
    "docs/deployment.md": 3,
    "docs/encryption.md": 1,
    "docs/kerberos.md": 1,
    "docs/lag.md": 1,
    "docs/machines.md": 1,
    "docs/operations.md": 1,
    "docs/pipelines.md": 2,
    "docs/rest.md": 1,
    "docs/security-clients.md": 1,
    "docs/simulation.md": 2,
    "docs/schema-validation.md": 1,
    "docs/spark.md": 3,
    "docs/sql.md": 1,
    "docs/streams.md": 1,
    "docs/tracing.md": 2,
    "docs/upgrade.md": 2,
    "examples/README.md": 1,
}
PAGES: Final = {
    str(path.relative_to(ROOT)): path
    for path in sorted(
        [
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
            ROOT / "examples" / "README.md",
            *ROOT.glob("docs/*.md"),
            *ROOT.glob("docs/recipes/*.md"),
        ]
    )
}
# What a page needs beside Odradek.
NEEDED: Final = {"docs/kerberos.md": require_kerberos}
_TEST_FILE: Final = re.compile(r"\btests/[\w/]+(?:\.py)?")
_INSTALL: Final = re.compile(r"(?:pip install|scripts/setup) +([^\s`]+)`")


def _blocks(name: str) -> list[Block]:
    return list(blocks(PAGES[name].read_text())) if name not in ELSEWHERE else []


def _ignore(line: int, step: Step, printed: str, problem: str | None) -> None:
    """What a page shows is compared by `Page`, which raises; a test needs no report."""


@pytest.mark.parametrize("name", sorted(set(PAGES) - set(ELSEWHERE)))
def test_a_page(name: str, tmp_path: Path) -> None:
    need(NEEDED.get(name, lambda: None))
    Page(PAGES[name], tmp_path, _ignore).run()


def test_few_blocks_are_not_run() -> None:
    found = {
        name: count
        for name in PAGES
        if (count := sum(block.kind is Kind.NOT_RUN for block in _blocks(name)))
    }
    assert found == NOT_RUN


def test_blocks_that_are_not_run_name_tests_that_exist() -> None:
    named = [
        test
        for name in PAGES
        for block in _blocks(name)
        if block.kind is Kind.NOT_RUN
        for test in _TEST_FILE.findall(block.argument)
    ]
    assert named
    assert [test for test in [*named, *ELSEWHERE.values()] if not (ROOT / test).exists()] == []


def test_the_picture_shows_the_demo_as_it_is() -> None:
    """Draw it again (scripts/draw_demo.py) when a step of the demo is changed."""
    picture = ElementTree.fromstring((ROOT / "docs" / "demo.svg").read_text())
    drawn = [text.text for text in picture.iter() if text.get("font-weight") == "bold"]
    steps = re.findall(r'^step "(.*)"$', (ROOT / "scripts" / "demo").read_text(), re.MULTILINE)
    assert len(drawn) >= 4
    assert set(drawn) <= set(steps)


def test_what_is_installed_exists() -> None:
    """Nothing is on an index yet, so lines install from a clone, and extras that there are."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    allowed = {"PATH", "/path/to/this/clone", *project["optional-dependencies"]}
    allowed |= {f"'PATH[{extra}]'" for extra in project["optional-dependencies"]}
    own = {
        what.rstrip(".,;:)")
        for path in PAGES.values()
        for what in _INSTALL.findall(path.read_text())
        if not what.startswith("-")
    }
    others = {"confluent-kafka", "matplotlib", "pytest"}
    assert own - allowed - others == set()
