"""Describes the endpoints of a service as an OpenAPI 3.1 document."""

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from odradek.web.endpoints import TYPES, Endpoint, Parameter
from odradek.web.media import EVENTS

_IN_PATH: Final = re.compile(r"\{(\w+)(?::(\w+))?\}")
_ALWAYS: Final = {
    401: "The caller must log in, or the log-in was refused.",
    403: "The caller may not do that.",
    406: "The endpoint has no media type that the client accepts.",
    421: "The request names a host that the service does not know.",
    503: "Too many requests at once, or what the service needs is away; try again.",
    504: "No answer in time.",
}
_WITH_BODY: Final = {
    400: "The request is malformed.",
    413: "The body is too large.",
    415: "The body has another media type than those that are listed.",
}
_WITH_FIELDS: Final = {422: "A field of the body is missing or unknown."}
_ERROR: Final = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}


def openapi(title: str, version: str, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Returns the description of a service."""
    endpoints = list(endpoints)
    types = [kind for one in endpoints for kind in (one.body, one.answer) if kind is not None]
    kinds = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = _IN_PATH.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {"schemas": {**components, "Error": _ERROR}},
    }


def _operation(endpoint: Endpoint, schemas: dict[Any, Any]) -> dict[str, Any]:
    in_path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "minimum": 0} if kind == "int" else _TEXT,
        }
        for name, kind in _IN_PATH.findall(endpoint.path)
    ]
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "parameters": in_path + [_described(parameter) for parameter in endpoint.parameters],
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.body is not None:
        content = {"schema": schemas[endpoint.body]}
        operation["requestBody"] = {
            "required": endpoint.needs_body,
            "content": dict.fromkeys(endpoint.media_types, content),
        }
    return operation


_TEXT: Final = {"type": "string", "minLength": 1}


def _responses(endpoint: Endpoint, schemas: dict[Any, Any]) -> dict[str, Any]:
    """Returns the answers: those that are declared, and those that every endpoint may give."""
    statuses = {**_ALWAYS, **_WITH_BODY, **endpoint.responses}
    if not _IN_PATH.search(endpoint.path):
        statuses = {**_ALWAYS, **endpoint.responses}
        if endpoint.body is not None or endpoint.parameters or endpoint.changes:
            statuses = {**_WITH_BODY, **statuses}
    if endpoint.body is not None:
        statuses = {**_WITH_FIELDS, **statuses}
    described = {}
    for status in sorted(statuses):
        answer: dict[str, Any] = {"description": statuses[status]}
        if status >= 400:
            error = {"schema": {"$ref": "#/components/schemas/Error"}}
            types = [kind for kind in endpoint.produces if kind != EVENTS]
            answer["content"] = dict.fromkeys(dict.fromkeys(["application/json", *types]), error)
        elif status != 204 and endpoint.answer is not None:
            schema = {"schema": schemas[endpoint.answer]}
            answer["content"] = dict.fromkeys(endpoint.produces, schema)
        elif status != 204 and endpoint.produces != ("application/json",):
            answer["content"] = {kind: {} for kind in endpoint.produces}
        described[str(status)] = answer
    return described


def _described(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": TYPES[parameter.kind]}
    if parameter.many:
        schema = {"type": "array", "items": schema}
    if parameter.default is not None:
        schema["default"] = parameter.default
    doc = f"{parameter.doc} (Accepted, and ignored.)" if parameter.is_ignored else parameter.doc
    described = {"name": parameter.name, "in": "query", "description": doc.strip()}
    return {**described, "schema": schema} | (
        {"style": "form", "explode": False} if parameter.many else {}
    )
