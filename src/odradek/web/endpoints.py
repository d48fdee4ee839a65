"""One declaration for each endpoint. Routing, checks of parameters and OpenAPI follow from it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from odradek.config.spelling import did_you_mean
from odradek.web.media import JSON
from odradek.web.problems import Problem

Handler = Callable[[Request], Awaitable[Response]]
WebSocketHandler = Callable[[WebSocket], Awaitable[None]]
"""Talks to a client whose web socket is not accepted yet."""
TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string"}
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query string."""

    name: str
    kind: type[bool | int | float | str] = str
    default: bool | int | float | str | None = None
    doc: str = ""
    many: bool = False
    """Whether it is a list: with commas between, or given several times."""
    is_ignored: bool = False
    """Whether it is accepted for the sake of existing clients, and changes nothing."""

    def parse(self, text: str) -> Any:
        if self.many:
            return [self._parse(part.strip()) for part in text.split(",") if part.strip()]
        return self._parse(text)

    def _parse(self, text: str) -> bool | int | float | str:
        if self.kind is bool:
            value = _BOOLEANS.get(text.strip().lower())
            if value is None:
                raise Problem(400, f"{self.name} is true or false, not {text!r}")
            return value
        try:
            return self.kind(text)
        except ValueError:
            raise Problem(400, f"{self.name} is a number, not {text!r}") from None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path with a method. `changes` says that it changes something, so it needs a log-in unless
    the service is reachable from this machine alone."""

    method: str
    path: str
    handler: Handler
    summary: str
    parameters: tuple[Parameter, ...] = ()
    changes: bool = False
    body: Any = None
    """The type of the body of a request."""
    media_types: tuple[str, ...] = (JSON,)
    """What the body of a request may be."""
    needs_body: bool = True
    """Whether a request without a body is wrong, where `body` is declared."""
    produces: tuple[str, ...] = (JSON,)
    """What the answer may be: the client's `Accept` chooses, and the first is the default."""
    responses: Mapping[int, str] = field(default_factory=lambda: {200: "The answer."})
    answer: Any = None
    """The type of a successful answer's body, for OpenAPI."""
    max_body_bytes: int | None = None
    """How long the body of a request may be; unset, as the policy of the service says, and of a
    stream as long as it likes."""
    ignores_unknown: bool = False
    """Whether parameters that are not declared are skipped: newer clients may send more."""
    web_socket: WebSocketHandler | None = None
    """Takes the clients that ask this path for a web socket."""
    is_stream: bool = False
    """Whether the request or the answer may go on for long: no time limit, and no limit of the body
    but `max_body_bytes`."""

    def query(self, request: Request) -> dict[str, Any]:
        """Returns the parameters with their types and defaults. Raises for one that is unknown or
        wrong, so that no misspelt parameter is skipped."""
        known = {parameter.name: parameter for parameter in self.parameters}
        values: dict[str, Any] = {
            parameter.name: parameter.default for parameter in self.parameters
        }
        for name, text in request.query_params.multi_items():
            if name not in known:
                if self.ignores_unknown:
                    continue
                near = did_you_mean(name, list(known))
                raise Problem(400, f"there is no parameter {name!r} of {self.path}{near}")
            value = known[name].parse(text)
            earlier = values[name] if known[name].many else None
            values[name] = value if earlier is None else [*earlier, *value]
        return values
