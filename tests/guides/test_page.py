"""A page that shows something else than what happens is noticed."""

from pathlib import Path

import pytest

from tests.guides.markdown import NotationError
from tests.guides.page import Page, PageDiffers
from tests.guides.terminal import Terminal
from tests.guides.transcript import Step

RIGHT = [
    "```\n$ echo one\none\n```\n",
    "```\n$ cd /\n$ export WORD=two\n```\n```\n$ pwd\n/\n$ echo $WORD\ntwo\n```\n",
    "<!-- file: a.txt -->\n```json\n{}\n```\n```\n$ cat a.txt\n{}\n```\n",
    "```python\nprint('three')\n```\n<!-- prints -->\n```\nthree\n```\n",
    "```python\ndef test_it():\n    assert True\n```\n",
    "<!-- background -->\n```\n$ echo ready; sleep 60\nready\n```\n```\n$ echo next\nnext\n```\n",
    "<!-- soon -->\n```\n$ date >> times; wc -l < times\n3\n```\n",
    "```\n$ echo 'odradek topics: no' >&2; false\nodradek topics: no\n```\n",
]
WRONG = [
    "```\n$ echo one\ntwo\n```\n",
    "```\n$ echo one\none\n$ echo two\n```\n",  # prints what is not shown
    "```\n$ false\n```\n",
    "```\n$ echo 'odradek topics: no'\nodradek topics: no\n```\n",  # shows an error, and succeeds
    "```python\nprint('three')\n```\n<!-- prints -->\n```\nfour\n```\n",
    "```python\nraise SystemExit(1)\n```\n",
    "```python\ndef test_it():\n    assert False\n```\n",
    "<!-- background -->\n```\n$ echo ready\nsteady\n```\n",
]


def run(page: str, directory: Path) -> list[str]:
    path = directory / "page.md"
    path.write_text(page)
    printed: list[str] = []

    def note(line: int, step: Step, output: str, problem: str | None) -> None:
        printed.append(output)

    Page(path, directory / "run", note).run()
    return printed


@pytest.mark.parametrize("page", RIGHT)
def test_a_page_that_is_right(page: str, tmp_path: Path) -> None:
    assert run(page, tmp_path)


@pytest.mark.parametrize("page", WRONG)
def test_a_page_that_is_wrong(page: str, tmp_path: Path) -> None:
    with pytest.raises(PageDiffers):
        run(page, tmp_path)


def test_a_command_in_the_background_says_when_it_is_ready(tmp_path: Path) -> None:
    with pytest.raises(NotationError):
        run("<!-- background -->\n```\n$ sleep 60\n```\n", tmp_path)


def test_ports_and_the_home_directory_are_replaced(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "run")
    typed = "localhost:9092,localhost:9093 in /home/ada/data, offset 19092"
    here = terminal.here(typed)
    assert "9092," not in here
    assert "/home/ada" not in here
    assert here.endswith("offset 19092")
    assert terminal.there(here) == typed
