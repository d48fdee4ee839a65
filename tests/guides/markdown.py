"""The blocks of a Markdown page, in order, with the HTML comments that say how to run them.

A comment is invisible to readers. Those that stand directly before a block belong to it:

    <!-- not run: REASON -->    the block cannot be run by a test
    <!-- background -->         its last command goes on while the next blocks run
    <!-- soon -->               its commands are repeated until they print what is shown
    <!-- file: NAME -->         the block is the content of a file, which is written
    <!-- prints -->             the block is the output of the Python block before it

Two stand alone:

    <!-- Ctrl-C -->             ends the newest command in the background
    <!-- before: COMMANDS -->   a session that readers do not see, such as the start of a broker:
                                a command that ends with & goes on
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

_PART: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$"
    r"|^ *<!--\s*(?P<comment>.*?)\s*-->",
    re.MULTILINE | re.DOTALL,
)
_ATTACHED: Final = re.compile(r"(not run|file): *(.+)|(background|soon|prints)", re.DOTALL)
_SHELL_LANGUAGES: Final = ("", "console", "sh", "bash", "shell", "text")
_COMMAND: Final = re.compile(
    r"^(?:\$ |(?:odradek|python3?|pip|export|curl|bash|scripts/\w+|kafka-[\w.-]+|\.venv/\S+) )",
    re.MULTILINE,
)


class Kind(Enum):
    SESSION = auto()  # commands and what they print
    PYTHON = auto()
    FILE = auto()
    OUTPUT = auto()  # of the Python block before
    CTRL_C = auto()
    NOT_RUN = auto()  # could be run, but the page says why not
    TEXT = auto()  # nothing to run: diagrams, examples of lines


class NotationError(Exception):
    """A page that does not follow the notation."""


@dataclass(frozen=True)
class Block:
    kind: Kind
    text: str
    line: int
    is_background: bool = False
    is_repeated: bool = False
    argument: str = ""  # the name of a file, or the reason why a block is not run


def blocks(page: str) -> Iterator[Block]:
    comment: re.Match[str] | None = None
    for part in _PART.finditer(page):
        line = page.count("\n", 0, part.start()) + 1
        if part["comment"] is not None:
            if comment is not None:
                raise NotationError(f"line {line}: the comment before belongs to no block")
            block = _standing_alone(part["comment"], line)
            if block is not None:
                yield block
            else:
                comment = part
            continue
        if comment is not None and page[comment.end() : part.start()].strip():
            raise NotationError(f"line {line}: text between the block and its comment")
        yield _block(part, line, comment["comment"] if comment else "")
        comment = None
    if comment is not None:
        raise NotationError("the last comment belongs to no block")


def _standing_alone(comment: str, line: int) -> Block | None:
    if comment == "Ctrl-C":
        return Block(Kind.CTRL_C, "", line)
    if comment.startswith("before:"):
        text = comment.removeprefix("before:").strip() + "\n"
        return Block(Kind.SESSION, text, line)
    if not _ATTACHED.fullmatch(comment):
        raise NotationError(f"line {line}: unknown comment {comment!r}")
    return None


def _block(part: re.Match[str], line: int, comment: str) -> Block:
    indent = part["indent"]
    text = re.sub(rf"^{indent}", "", part["text"], flags=re.MULTILINE)
    attached = _ATTACHED.fullmatch(comment)
    word = (attached[1] or attached[3]) if attached else ""
    argument = (attached[2] or "") if attached else ""
    if word == "not run":
        return Block(Kind.NOT_RUN, text, line, argument=argument)
    if word == "file":
        return Block(Kind.FILE, text, line, argument=argument)
    if word == "prints":
        return Block(Kind.OUTPUT, text, line)
    if part["language"] == "python":
        return Block(Kind.PYTHON, text, line)
    if part["language"] not in _SHELL_LANGUAGES or not _COMMAND.search(text):
        return Block(Kind.TEXT, text, line)
    if not text.startswith("$ "):
        raise NotationError(f"line {line}: a block of commands begins with '$ '")
    return Block(
        Kind.SESSION,
        text,
        line,
        is_background=word == "background",
        is_repeated=word == "soon",
    )
