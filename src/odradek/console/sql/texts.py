"""What a text of SQL is made of: its statements, and what they would do.

The server parses statements; the console only divides a text at its semicolons to know what it is
about to send. It does so without the SQL extra, so it works with any ksqlDB.
"""

import re
from collections.abc import Iterator
from typing import Final

# A quoted text, a quoted name, a comment, the end of a statement, or anything else.
_TOKENS: Final = re.compile(
    r"'(?:[^']|'')*'?|`(?:[^`]|``)*`?|\"(?:[^\"]|\"\")*\"?"
    r"|--[^\n]*|/\*.*?(?:\*/|\Z)|;|[^'`\"\-/;]+|[-/]",
    re.DOTALL,
)
_WORD: Final = re.compile(r"[A-Za-z_]+")
_COMMENTS: Final = ("--", "/*")
_QUERIES: Final = ("SELECT", "PRINT")
_ENDS: Final = ("DROP", "TERMINATE")
_LOOKS: Final = ("SHOW", "LIST", "DESCRIBE", "EXPLAIN", "PAUSE", "RESUME", "TERMINATE", "DROP")


def statements(text: str) -> list[str]:
    """Returns the statements of a text without their semicolons and comments."""
    found: list[str] = []
    current = ""
    for match in _TOKENS.finditer(text):
        part = match[0]
        if part == ";":
            found.append(current.strip())
            current = ""
        else:
            current += " " if part.startswith(_COMMENTS) else part
    return [one for one in [*found, current.strip()] if one]


def ended(text: str) -> str:
    """Returns a text whose last statement has its semicolon. A comment may come after it."""
    last = ""
    for match in _TOKENS.finditer(text):
        if match[0].strip() and not match[0].startswith(_COMMENTS):
            last = match[0]
    return text if last == ";" else f"{text}\n;"


def first_word(statement: str) -> str:
    match = _WORD.match(statement)
    return match[0].upper() if match is not None else ""


def is_query(statement: str) -> bool:
    """Returns whether a statement is answered by rows: SELECT and PRINT."""
    return first_word(statement) in _QUERIES


def goes_on(statement: str) -> bool:
    """Returns whether a query has no end of its own: a push query, or PRINT."""
    words = [word.upper() for word in _words(statement)]
    return first_word(statement) == "PRINT" or "EMIT" in words


def that_end(found: list[str]) -> list[str]:
    """Returns the statements that end or delete something."""
    return [one for one in found if first_word(one) in _ENDS]


def that_show_records(found: list[str]) -> list[str]:
    """Returns the statements by which values of records can be seen or copied."""
    return [one for one in found if first_word(one) not in _LOOKS]


def has_hidden_end(found: list[str]) -> bool:
    """Returns whether a semicolon stands within a quoted text or name. A server that takes quotes
    or comments for something else than this module would end a statement there, and see another
    one after it."""
    return any(";" in one for one in found)


def joined(found: list[str]) -> str:
    """Returns statements as one text, without their comments."""
    return "\n".join(f"{one};" for one in found)


def _words(statement: str) -> Iterator[str]:
    for match in _TOKENS.finditer(statement):
        if not match[0].startswith(("'", "`", '"', *_COMMENTS)):
            yield from _WORD.findall(match[0])
