"""The patterns of LIKE."""

import re


def like_pattern(pattern: str, escape: str | None) -> "re.Pattern[str]":
    """Returns LIKE as a regular expression: % is any text, _ any character.

    What stands between two % is matched where it is found first, and never anywhere else (an atomic
    group). That finds all that there is, as the last % takes any text, and a pattern with many %
    cannot keep the server busy by trying all combinations.
    """
    texts, position = [""], 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape and position + 1 < len(pattern):
            position += 1
            texts[-1] += re.escape(pattern[position])
        elif character == "%":
            texts.append("")
        else:
            texts[-1] += "." if character == "_" else re.escape(character)
        position += 1
    first, *between = texts
    last = f".*{between.pop()}" if between else ""
    searched = "".join(f"(?>.*?{text})" for text in between if text)
    return re.compile(f"{first}{searched}{last}", re.DOTALL)
