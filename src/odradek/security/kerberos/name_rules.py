r"""`sasl.kerberos.principal.to.local.rules`: the name of a user from a Kerberos principal.

    RULE:[2:$1@$0](hdfs@EXAMPLE.COM)s/.*/storage/,RULE:[1:$1](.*)s/_svc$//L,DEFAULT

Rules are separated by commas and tried in order. `RULE:[n:format](pattern)s/from/to/g` counts for a
principal with n parts before the `@`. The format makes a text of them: `$0` is the realm, `$1` the
first part, `$2` the second. The pattern, if there is one, must match the whole text. Then `from` is
replaced by `to` (once, or everywhere with `g`), and `/L` or `/U` at the end makes the result lower
or upper case. `DEFAULT` is the first part, for principals of the default realm alone.

The result must be a simple name: one with `/` or `@` is refused, and so is a principal for which no
rule counts. Both end the log-in, as in Kafka.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from odradek.config.setting import InvalidSetting
from odradek.security.java_patterns import (
    InvalidPattern,
    check_replacement,
    compile_pattern,
    expand,
)

NAME: Final = "sasl.kerberos.principal.to.local.rules"
DEFAULT: Final = "DEFAULT"

_RULE: Final = re.compile(
    r"RULE:\[(?P<parts>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU]?)"
)
_PRINCIPAL: Final = re.compile(r"(?P<first>[^/@]*)(?:/(?P<second>[^/@]*))?@(?P<realm>[^/@]*)")
_PARAMETER: Final = re.compile(r"\$(\d+)")
_EXAMPLE: Final = "write DEFAULT, or RULE:[1:$1](pattern)s/from/to/ with L or U behind it"


class NoRuleMatches(ValueError):
    """No rule says which user a Kerberos principal is."""


class _Rule(NamedTuple):
    """`text` is the rule as it was written. `pattern` is None where nothing is replaced."""

    text: str
    parts: int
    format: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    replaces_all: bool
    case: str

    def apply(self, parameters: list[str]) -> str | None:
        """Returns the name that the rule makes; None if it does not count for this principal."""
        if len(parameters) - 1 != self.parts:
            return None
        text = _PARAMETER.sub(lambda one: parameters[int(one[1])], self.format)
        if self.match is not None and self.match.fullmatch(text) is None:
            return None
        if self.pattern is None:
            return text
        count = 0 if self.replaces_all else 1
        return self.pattern.sub(lambda one: expand(self.replacement, one), text, count=count)


class NameRules:
    """The rules of one listener."""

    __slots__ = ("_default_realm", "_rules")

    def __init__(
        self,
        rules: Iterable[str] = (DEFAULT,),
        prefix: str = "",
        default_realm: Callable[[], str] = str,
    ) -> None:
        """`default_realm` is asked for each principal that comes to a rule DEFAULT. Raises
        `InvalidSetting`; `prefix` is only for its message."""
        self._default_realm = default_realm
        texts = [text.strip() for text in rules] or [DEFAULT]
        self._rules = [None if text == DEFAULT else _read_rule(text, prefix) for text in texts]

    def name(self, principal: str) -> str:
        """Returns the name of the user. Raises `NoRuleMatches`."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            if "@" in principal:
                raise NoRuleMatches(f"{principal} is not the name of a Kerberos principal")
            return principal
        parameters = [found["realm"], found["first"]]
        if found["second"] is not None:
            parameters.append(found["second"])
        for rule in self._rules:
            if rule is None:
                if found["realm"] == self._default_realm():
                    return found["first"]
                continue
            name = rule.apply(parameters)
            if name is not None:
                if "/" in name or "@" in name:
                    raise NoRuleMatches(
                        f"{rule.text} of {NAME} makes {name} of {principal}, and a name of a user"
                        " has no / and no @"
                    )
                return {"L": name.lower(), "U": name.upper()}.get(rule.case, name)
        raise NoRuleMatches(f"no rule of {NAME} is for {principal}")


def _read_rule(text: str, prefix: str) -> _Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise InvalidSetting(prefix + NAME, text, f"it is not a rule; {_EXAMPLE}")
    parts = int(found["parts"])
    for number in _PARAMETER.findall(found["format"]):
        if int(number) > parts:
            reason = f"${number} in [{parts}:{found['format']}]: there are {parts} parts"
            raise InvalidSetting(prefix + NAME, text, reason)
    try:
        match = None if found["match"] is None else compile_pattern(found["match"])
        pattern = None if found["pattern"] is None else compile_pattern(found["pattern"])
        if pattern is not None:
            check_replacement(found["to"], pattern)
    except InvalidPattern as error:
        raise InvalidSetting(prefix + NAME, text, str(error)) from None
    return _Rule(
        text,
        parts,
        found["format"],
        match,
        pattern,
        found["to"] or "",
        found["all"] is not None,
        found["case"],
    )
