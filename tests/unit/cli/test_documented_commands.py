"""Every command line of ours that a page or a help text names is one that its tool accepts.

The blocks of the pages for users are run (`tests/guides`); this test reads the rest: commands in
sentences and tables, and the examples of the help texts, which are in the reference.
"""

import re
import shlex
from pathlib import Path

import pytest

from odradek.cli.commands import COMMANDS, module_name
from odradek.cli.parser import load_tool
from odradek.tools.failures import UsageError

ROOT = Path(__file__).parents[3]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("docs/recipes/*.md")),
    *sorted(ROOT.glob("docs/reference/*.md")),
]
_SPAN = re.compile(r"`(odradek [^`]+)`")
_EXAMPLE = re.compile(r"^ *(?:\$ )?(odradek [^\n]*(?:(?<=\\)\n[^\n]*)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# A form, in which not every word is to be typed: `odradek local start|stop|status`.
_FORM = re.compile(r"\.\.\.|…|--help|\||\[|\bCOMMAND\b|\bNAME\b")
# What stands for a number, in sentences.
_NUMBER = re.compile(
    r"(?<=--partitions )N\b|(?<=--partition )P\b|(?<=--brokers )N\b|(?<=--throttle )BYTES\b"
)
# Sentences name a command without the flags and values that do not matter to them.
_LEFT_OUT = (" is needed", " are needed", " is required", "needs a value")


def commands(page: str) -> set[str]:
    texts = {span.replace("\n", " ") for span in _SPAN.findall(_BLOCK.sub("", page))}
    for block in _BLOCK.findall(page):
        texts.update(found.replace("\\\n", " ") for found in _EXAMPLE.findall(block))
    return {text for text in texts if not _FORM.search(text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tools_accept_what_pages_name(page: Path) -> None:
    refused = {}
    for text in sorted(commands(page.read_text())):
        words = shlex.split(_NUMBER.sub("3", text), comments=True)[1:]
        words = words[: next((i for i, word in enumerate(words) if word in {"|", "&", ">"}), None)]
        if not words or words[0] not in COMMANDS:
            continue
        try:
            load_tool(words[0], module_name(words[0]))[1].parse_args(words[1:])
        except (UsageError, SystemExit) as failure:
            if not str(failure).endswith(_LEFT_OUT):
                refused[text] = str(failure)
    assert refused == {}


def test_there_are_commands_to_look_at() -> None:
    assert sum(len(commands(page.read_text())) for page in PAGES) > 150
