"""${name} in statements: replaced by the values of DEFINE before a statement is parsed.

Nothing is replaced in comments. `${name}` of an unknown variable stays as it is, so that texts may
contain such words; where it is no text, the parser then says what is wrong. `$${name}` stands for
the text `${name}`.
"""

import re
from collections.abc import Mapping
from typing import Final

from odradek.sql.errors import Invalid

_VARIABLE: Final = re.compile(r"(\$)?\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# A comment without an end goes to the end of the text: looking for it once more at each `/*` would
# take time by the square of the length.
_COMMENT: Final = re.compile(r"--[^\n]*|/\*(?:.*?\*/|.*)|'(?:[^']|'')*'", re.DOTALL)

_MAX_LENGTH: Final = 20_000_000


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """Returns the text with the values of variables. Names match without case. Raises `Invalid`
    if that is too long."""
    if "${" not in text:
        return text
    values = {name.upper(): value for name, value in variables.items()}

    length = len(text)

    def value(match: "re.Match[str]") -> str:
        nonlocal length
        if match[1]:
            return match[0][1:]
        found = values.get(match[2].upper(), match[0])
        length += len(found) - len(match[0])
        if length > _MAX_LENGTH:
            raise Invalid(f"with its variables the text has more than {_MAX_LENGTH:,} characters")
        return found

    pieces, end = [], 0
    for match in _COMMENT.finditer(text):
        pieces.append(_VARIABLE.sub(value, text[end : match.start()]))
        is_text = match[0].startswith("'")
        pieces.append(_VARIABLE.sub(value, match[0]) if is_text else match[0])
        end = match.end()
    pieces.append(_VARIABLE.sub(value, text[end:]))
    return "".join(pieces)
