"""Whether a command printed what its page shows.

What differs from run to run is recognised by its form: a date in the page stands for any date, a
number of seconds for any number of seconds, and so on (`_VARYING`). `...` stands for any text in a
line, and alone in a line for any lines. Which brokers have a partition may differ, but not how
many. The width of columns does not count.
"""

import re
from typing import Final

_VARYING: Final = [
    r"\d{4}-\d\d-\d\d",  # dates
    r"\d\d:\d\d:\d\d(?:[.,]\d+)?",  # times
    r"\b1[6-9]\d{11}\b",  # milliseconds since 1970
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",  # ids of members
    r"(?<![\w-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{22}(?![\w-])",  # ids of topics and clusters
    r"(?<=process )\d+",
    r"\b\d[\d,]*(?:\.\d+)? (?:ms|s|min|h|B|kB|MB|GB|TB)(?:/s)?(?!\w)",  # durations, sizes, rates
]
_TOKEN: Final = re.compile(
    "|".join(f"(?P<varying_{number}>{form})" for number, form in enumerate(_VARYING))
    + r"|(?P<brokers>(?<=Replicas: )[\d,]+|(?<=Isr: )[\d,]+|(?<=Leader: )\d+)"
    + r"|(?P<dots>\.\.\.)|(?P<space>\s{2,}|\t)"
)


def matches(shown: str, printed: str) -> bool:
    printed = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    lines = [line.rstrip() for line in shown.splitlines()]
    pattern = "".join("(?:.*\n)*" if line == "..." else f"{_line(line)}\n" for line in lines)
    return re.fullmatch(pattern, printed) is not None


def _line(line: str) -> str:
    pattern, end = "", 0
    for token in _TOKEN.finditer(line):
        pattern += re.escape(line[end : token.start()])
        end = token.end()
        if token["dots"]:
            pattern += ".*"
        elif token["brokers"]:
            pattern += r"\d+" + r",\d+" * token["brokers"].count(",")
        elif token["space"]:
            pattern += r"[ \t]*" if token.start() == 0 else r"[ \t]+"
        else:
            number = int(str(token.lastgroup).removeprefix("varying_"))
            pattern += f"(?:{_VARYING[number]})"
    return pattern + re.escape(line[end:])
