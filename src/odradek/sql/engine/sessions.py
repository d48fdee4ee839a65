"""What SET and DEFINE have said, for one request or one shell."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.config.spelling import did_you_mean
from odradek.sql.errors import Invalid
from odradek.sql.language import statements as s

RESETS: Final = ("earliest", "latest")
RESET: Final = ("ksql.streams.auto.offset.reset", "auto.offset.reset")

LANE: Final = "odradek.sql.lane"
LANES: Final = ("shared", "own")
OBEYED: Final = (*RESET, LANE)


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
                self.variables[statement.name] = statement.value
            case s.Undefine():
                self.variables.pop(statement.name, None)
            case _:
                return False
        return True

    def not_obeyed(self) -> list[dict[str, str]]:
        """Returns a warning for each property that is given and not obeyed."""
        return [
            {"message": f"the property {name} is not obeyed{did_you_mean(name, OBEYED)}"}
            for name in self.properties
            if name not in OBEYED
        ]


def reset_of(properties: Mapping[str, str], default: str | None) -> str | None:
    """Returns where reading begins, earliest or latest; None if nobody has said it."""
    for name in RESET:
        if name in properties:
            return properties[name].lower()
    return default


def check_property(statement: s.SetProperty | s.AlterSystem, *, known_alone: bool = False) -> None:
    """Raises `Invalid` for a value that a property cannot have, and for a property that is not
    obeyed if only those may be set."""
    value = statement.value
    if known_alone and statement.name not in OBEYED:
        raise Invalid(
            f"the property {statement.name} is not obeyed{did_you_mean(statement.name, OBEYED)}",
            statement.place,
        )
    if statement.name == LANE and value not in LANES:
        raise Invalid(f"{LANE} is shared or own, not '{value}'", statement.place)
    if statement.name in RESET and value.lower() not in RESETS:
        raise Invalid(
            f"{statement.name} is {' or '.join(RESETS)}, not '{value}'"
            f"{did_you_mean(value, RESETS)}",
            statement.place,
        )
