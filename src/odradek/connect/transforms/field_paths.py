"""Paths to nested fields, as transforms with `field.syntax.version` take them (KIP-821)."""

from odradek.connect.errors import InvalidConfig


def path_of(text: str, version: str) -> tuple[str, ...]:
    """Returns the names on the way. In V1 a text is one name, whatever it has in it. In V2 names
    are separated by points; a name in backquotes may have points."""
    if version == "V1" or "." not in text:
        return (text.strip("`") if version == "V2" and _is_quoted(text) else text,)
    names: list[str] = []
    rest = text
    while rest:
        if rest.startswith("`"):
            end = rest.find("`", 1)
            while 0 <= end < len(rest) - 1 and rest[end + 1] != ".":
                end = rest.find("`", end + 1)
            if end < 0:
                raise InvalidConfig(f"Incomplete backtick pair in path: [{text}]")
            names.append(rest[1:end].replace("\\`", "`"))
            rest = rest[end + 1 :].removeprefix(".")
        else:
            name, _, rest = rest.partition(".")
            names.append(name)
    return tuple(names)


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] == "`"
