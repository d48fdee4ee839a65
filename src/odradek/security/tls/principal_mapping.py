r"""`ssl.principal.mapping.rules`: the name of a principal from the distinguished name of a
certificate.

    RULE:^CN=(.*?),OU=Ops.*$/$1@ops/L,DEFAULT

Rules are separated by commas and tried in order. `RULE:pattern/replacement/` counts if the pattern
matches the whole name; `$1` stands for its first group, and `/L` or `/U` at the end makes the
result lower or upper case. `DEFAULT` is the name as it is. If no rule matches, Kafka closes the
connection, and so does this broker.
"""

import re
from typing import Final, NamedTuple

from odradek.config.setting import InvalidSetting
from odradek.security.java_patterns import (
    InvalidPattern,
    check_replacement,
    compile_pattern,
    expand,
)

NAME: Final = "ssl.principal.mapping.rules"
DEFAULT: Final = "DEFAULT"

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<to>(?:\\.|[^\\/])*)/"
    r"(?P<case>[LU]?))\s*(?:,\s*|$)"
)


class NoRuleMatches(ValueError):
    """No rule says which principal a certificate stands for."""


class _Rule(NamedTuple):
    """`pattern` is None for DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str


class PrincipalMapping:
    """The rules of one listener."""

    __slots__ = ("_rules",)

    def __init__(self, text: str = DEFAULT, prefix: str = "") -> None:
        """Raises `InvalidSetting` for a rule that cannot be read; `prefix` is only for the
        message."""
        self._rules: list[_Rule] = []
        at = 0
        text = text.strip() or DEFAULT
        while at < len(text):
            found = _RULE.match(text, at)
            if found is None:
                reason = (
                    f"{text[at:]} is not a rule; write DEFAULT, or RULE:pattern/replacement/ with"
                    " L or U behind it"
                )
                raise InvalidSetting(prefix + NAME, text, reason)
            self._rules.append(_read_rule(found, text, prefix))
            at = found.end()

    def name(self, distinguished_name: str) -> str:
        """Returns the name of the principal. Raises `NoRuleMatches`."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            found = rule.pattern.fullmatch(distinguished_name)
            if found is not None:
                name = expand(rule.replacement, found)
                return {"L": name.lower(), "U": name.upper()}.get(rule.case, name)
        raise NoRuleMatches(f"no rule of {NAME} matches {distinguished_name}")


def _read_rule(found: re.Match[str], text: str, prefix: str) -> _Rule:
    if found["default"]:
        return _Rule(None, "", "")
    try:
        pattern = compile_pattern(found["pattern"])
        check_replacement(found["to"], pattern)
    except InvalidPattern as error:
        raise InvalidSetting(prefix + NAME, text, str(error)) from None
    return _Rule(pattern, found["to"], found["case"])
