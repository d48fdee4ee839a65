"""One declaration for each endpoint. Routing, checks of parameters and OpenAPI follow from it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.config.spelling import did_you_mean
from odradek.web.problems import Problem

Handler = Callable[[Request], Awaitable[Response]]
_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string"}
_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query string."""

    name: str
    kind: type[bool | int | float | str] = str
    default: bool | int | float | str | None = None
    doc: str = ""
    many: bool = False
    """Whether it is a list with commas between."""
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
    body: type[msgspec.Struct] | None = None
    media_types: tuple[str, ...] = ("application/json",)
    """What the body of a request may be."""
    responses: Mapping[int, str] = field(default_factory=lambda: {200: "The answer."})

    def query(self, request: Request) -> dict[str, Any]:
        """Returns the parameters with their types and defaults. Raises for one that is unknown or
        wrong, so that no misspelt parameter is passed over."""
        known = {parameter.name: parameter for parameter in self.parameters}
        values = {parameter.name: parameter.default for parameter in self.parameters}
        for name, text in request.query_params.items():
            if name not in known:
                near = did_you_mean(name, list(known))
                raise Problem(400, f"there is no parameter {name!r} of {self.path}{near}")
            values[name] = known[name].parse(text)
        return values


def openapi(title: str, version: str, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Returns the OpenAPI 3.1 description of a service."""
    endpoints = list(endpoints)
    bodies = [endpoint.body for endpoint in endpoints if endpoint.body is not None]
    schemas, components = msgspec.json.schema_components(
        bodies, ref_template="#/components/schemas/{name}"
    )
    by_body = dict(zip(bodies, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation: dict[str, Any] = {
            "summary": endpoint.summary,
            "parameters": [_described(parameter) for parameter in endpoint.parameters],
            "responses": {
                str(status): {"description": text} for status, text in endpoint.responses.items()
            },
        }
        if endpoint.body is not None:
            schema = {"schema": by_body[endpoint.body]}
            operation["requestBody"] = {
                "required": True,
                "content": dict.fromkeys(endpoint.media_types, schema),
            }
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {"schemas": components},
    }


def _described(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _TYPES[parameter.kind]}
    if parameter.many:
        schema = {"type": "array", "items": schema}
    if parameter.default is not None:
        schema["default"] = parameter.default
    doc = f"{parameter.doc} (Accepted, and ignored.)" if parameter.is_ignored else parameter.doc
    described = {"name": parameter.name, "in": "query", "description": doc.strip()}
    return {**described, "schema": schema} | (
        {"style": "form", "explode": False} if parameter.many else {}
    )
