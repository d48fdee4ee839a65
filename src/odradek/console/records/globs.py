"""Patterns with `*`, compared in time that grows with the text alone: what users write must not
keep the console busy, as regular expressions can."""


def matches_glob(pattern: str, text: str) -> bool:
    """Returns whether the whole text fits; `*` stands for any characters."""
    first, *pieces = pattern.split("*")
    if not pieces:
        return pattern == text
    last = pieces.pop()
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    place, end = len(first), len(text) - len(last)
    if not text.endswith(last):
        return False
    for piece in pieces:
        found = text.find(piece, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return True
