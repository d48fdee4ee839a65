"""How many arguments a user's function takes: functions may ask for more than the value alone."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple


class Parameters(NamedTuple):
    """The names of the positional parameters, and how many of them have no default."""

    names: tuple[str, ...]
    required: int

    def can_take(self, count: int) -> bool:
        return self.required <= count <= len(self.names)

    def wants(self, position: int, *names: str) -> bool:
        """Returns whether a parameter asks for what has these names: it is called so, or has no
        default. One with a default and another name is the function's own affair."""
        return len(self.names) > position and (
            self.required > position or self.names[position] in names
        )


def positional_parameters(function: Callable[..., Any]) -> Parameters | None:
    """Returns None for a function that does not tell, as some written in C."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return Parameters(
        tuple(parameter.name for parameter in positional),
        sum(parameter.default is parameter.empty for parameter in positional),
    )
