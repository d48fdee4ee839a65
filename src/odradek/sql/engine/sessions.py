"""What SET and DEFINE have said, for one request or one shell."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from odradek.config.spelling import did_you_mean
from odradek.sql.engine.definitions import FORMAT_NAMES, Defaults
from odradek.sql.errors import Invalid, Place
from odradek.sql.language import statements as s
from odradek.sql.language.parser import Part
from odradek.sql.language.variables import substitute

RESETS: Final = ("earliest", "latest")
RESET: Final = ("ksql.streams.auto.offset.reset", "auto.offset.reset")

LANE: Final = "odradek.sql.lane"
LANES: Final = ("shared", "own")
KEY_FORMAT: Final = "ksql.persistence.default.format.key"
VALUE_FORMAT: Final = "ksql.persistence.default.format.value"
WRAPPING: Final = "ksql.persistence.wrap.single.values"
SUBSTITUTION: Final = "ksql.variable.substitution.enable"
SCANS: Final = "ksql.query.pull.table.scan.enabled"
LIMITS: Final = {
    "COLLECT_LIST": "ksql.functions.collect_list.limit",
    "COLLECT_SET": "ksql.functions.collect_set.limit",
}
"""The properties that say how many values a collection has at most."""
OBEYED: Final = (
    *RESET, LANE, KEY_FORMAT, VALUE_FORMAT, WRAPPING, SCANS, SUBSTITUTION,
    *LIMITS.values(),
)  # fmt: skip


@dataclass
class Session:
    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def note(self, statement: s.Statement) -> bool:
        """Notes what a statement says of the session; returns whether it does."""
        match statement:
            case s.SetProperty():
                check_property(statement)
                self.properties[statement.name] = statement.value
            case s.UnsetProperty():
                self.properties.pop(statement.name, None)
            case s.Define():
                self._forget(statement.name)
                self.variables[statement.name] = statement.value
            case s.Undefine():
                self._forget(statement.name)
            case _:
                return False
        return True

    def _forget(self, variable: str) -> None:
        """Forgets a variable, in whatever case its name is written."""
        for name in [name for name in self.variables if name.upper() == variable.upper()]:
            del self.variables[name]

    def expanded(self, part: Part) -> Part | str:
        """Returns a statement with the values of variables. One that has none stays as it stands,
        so that places are those of the whole text. Raises `Invalid`."""
        is_off = self.properties.get(SUBSTITUTION, "true").lower() == "false"
        if is_off or "${" not in part.text:
            return part
        return substitute(part.text, self.variables)

    def not_obeyed(self) -> list[dict[str, str]]:
        """Returns a warning for each property that is given and not obeyed."""
        return [
            {"message": f"the property {name} is not supported{did_you_mean(name, OBEYED)}"}
            for name in self.properties
            if name not in OBEYED
        ]


def reset_of(properties: Mapping[str, str], default: str | None) -> str | None:
    """Returns where reading begins, earliest or latest; None if nobody has said it."""
    for name in RESET:
        if name in properties:
            return properties[name].lower()
    return default


def defaults_of(defaults: Defaults, properties: Mapping[str, str]) -> Defaults:
    """Returns what holds where WITH says nothing, with what a request or the system says about it.
    Raises `Invalid`."""
    for name, value in properties.items():
        check_value(name, value)
    limits = {
        function: int(properties[name])
        for function, name in LIMITS.items()
        if name in properties
    }  # fmt: skip
    wrapping = properties.get(WRAPPING)
    return replace(
        defaults,
        key_format=properties.get(KEY_FORMAT, defaults.key_format).upper(),
        value_format=properties.get(VALUE_FORMAT, defaults.value_format or "").upper() or None,
        is_wrapped=defaults.is_wrapped if wrapping is None else wrapping.lower() == "true",
        limits={**defaults.limits, **limits},
    )


def may_scan(properties: Mapping[str, str], default: bool) -> bool:
    """Returns whether a pull query may read a whole table. Raises `Invalid`."""
    given = properties.get(SCANS)
    if given is None:
        return default
    check_value(SCANS, given)
    return given.lower() == "true"


def check_property(statement: s.SetProperty | s.AlterSystem, *, known_alone: bool = False) -> None:
    """Raises `Invalid` for a value that a property cannot have, and for a property that is not
    obeyed if only those may be set."""
    if known_alone and statement.name not in OBEYED:
        raise Invalid(
            f"the property {statement.name} is not supported{did_you_mean(statement.name, OBEYED)}",
            statement.place,
        )
    check_value(statement.name, statement.value, statement.place)


def check_value(name: str, value: str, place: Place | None = None) -> None:
    """Raises `Invalid` for a value that a property cannot have."""
    if name in LIMITS.values() and not value.removeprefix("-").isdecimal():
        raise Invalid(f"{name} is a whole number, not '{value}'", place)
    choices: tuple[str, ...] = ()
    if name == LANE:
        choices = LANES
    elif name in RESET:
        choices, value = RESETS, value.lower()
    elif name in (WRAPPING, SCANS, SUBSTITUTION):
        choices, value = ("true", "false"), value.lower()
    elif name in (KEY_FORMAT, VALUE_FORMAT):
        choices, value = FORMAT_NAMES, value.upper()
    if choices and value not in choices:
        raise Invalid(
            f"{name} is {' or '.join(choices)}, not '{value}'{did_you_mean(value, choices)}", place
        )
