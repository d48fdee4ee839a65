"""The terminal of `odradek sql`: history, completion, rows that fit, the place of an error.

Completion knows the words of the language, and the streams, tables and functions of the server,
which is asked for them at the first Tab.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

HISTORY: Final = "sql_history"
_MOST_LINES: Final = 2000
_LEAST_WIDTH: Final = 6
_PLACE: Final = re.compile(r"^line (\d+):(\d+): (.*)$", re.DOTALL)
WORDS: Final = (
    "ADD COLUMN", "ALTER", "AS", "ASSERT", "BETWEEN", "BY", "CASE", "CAST", "CREATE", "DEFINE",
    "DELETE TOPIC", "DESCRIBE", "DROP", "EMIT CHANGES", "EMIT FINAL", "EXISTS", "EXPLAIN",
    "EXTENDED", "FROM", "FROM BEGINNING", "GRACE PERIOD", "GROUP BY", "HAVING", "HOPPING", "IF",
    "INNER JOIN", "INSERT INTO", "JOIN", "KEY", "LEFT JOIN", "LIKE", "LIMIT", "LIST", "NOT", "NULL",
    "ON", "OR REPLACE", "OUTER JOIN", "PARTITION BY", "PAUSE", "PRIMARY KEY", "PRINT",
    "RESUME", "RUN SCRIPT", "SELECT", "SESSION", "SET", "SHOW", "SINK CONNECTOR", "SIZE",
    "SOURCE CONNECTOR", "STREAM", "STREAMS", "TABLE", "TABLES", "TERMINATE", "TOPICS", "TUMBLING",
    "TYPE", "TYPES", "UNDEFINE", "UNSET", "VALUES", "WHEN", "WHERE", "WINDOW", "WITH", "WITHIN",
    "FUNCTION", "FUNCTIONS", "QUERIES", "PROPERTIES", "VARIABLES", "CONNECTORS",
)  # fmt: skip


def history_path() -> Path:
    """Returns the file of what was typed, where the system keeps the state of programs."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "odradek" / HISTORY


def prepare(names: Callable[[], Iterable[str]]) -> Callable[[], None]:
    """Reads the history and begins completion, where there is readline. `names` gives those of the
    server. Returns what keeps the history at the end."""
    try:
        import readline
    except ImportError:
        return lambda: None
    path = history_path()
    with suppress(OSError):  # The first time there is none.
        readline.read_history_file(path)
    known: list[str] = []

    def complete(text: str, place: int) -> str | None:
        if not known:
            known.extend(sorted({*WORDS, *names()}))
        found = completions(text, known)
        return found[place] if place < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n;(),=")
    readline.parse_and_bind("tab: complete")

    def keep() -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.set_history_length(_MOST_LINES)
            readline.write_history_file(path)
            path.chmod(0o600)
        except OSError as error:
            print(f"odradek sql: the history is not kept: {error}", file=sys.stderr)

    return keep


def completions(text: str, known: Sequence[str]) -> list[str]:
    """Returns what a word may become. Names of the server are in capitals, as words are."""
    return [word for word in known if text and word.startswith(text.upper())]


def fitted(cells: Sequence[str], width: int) -> str:
    """Returns the cells of a row in columns of equal width that fit a line, cut where they are
    longer."""
    between = " | "
    each = max(_LEAST_WIDTH, (width - len(between) * (len(cells) - 1)) // max(1, len(cells)))
    shown = [
        cell.ljust(each) if len(cell) <= each else f"{cell[: each - 1]}…"
        for cell in (cell.replace("\n", " ") for cell in cells)
    ]
    return between.join(shown).rstrip()


def columns_in(schema: str) -> list[str]:
    """Divides the columns of a header: at commas that stand in no type and no quoted name."""
    columns, depth, is_quoted = [""], 0, False
    for character in schema:
        is_quoted ^= character == "`"
        if not is_quoted:
            depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0 and not is_quoted:
            columns.append("")
        else:
            columns[-1] += character
    return [column.strip() for column in columns]


def columns_of_terminal() -> int | None:
    """Returns how wide the terminal is, or None if the output is none, and is not cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def pointing(message: str, text: str) -> str:
    """Returns an error with the line of the statement that it is about, and a mark below the place.
    One that names no place stays as it is."""
    found = _PLACE.match(message)
    lines = text.splitlines()
    if found is None or not 0 < int(found[1]) <= len(lines):
        return message
    line = lines[int(found[1]) - 1]
    column = min(int(found[2]), len(line) + 1)
    # Tabs stay tabs, so that the mark stands below its place.
    before = re.sub(r"[^\t]", " ", line[: column - 1])
    return f"{line}\n{before}^\n{message}"
