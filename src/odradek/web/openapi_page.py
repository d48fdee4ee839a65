"""Makes a reference page in Markdown of the OpenAPI description of a service."""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def endpoints_page(document: Json) -> str:
    """Returns a section for each path, and one for each body."""
    lines = ["## Endpoints"]
    for path, operations in sorted(document["paths"].items()):
        for method, operation in operations.items():
            lines += ["", *_operation(method.upper(), path, operation)]
    lines += ["", "## Bodies"]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += ["", *_body(name, schema)]
    return "\n".join(lines) + "\n"


def _operation(method: str, path: str, operation: Json) -> Iterator[str]:
    yield f"### {method} {path}"
    yield ""
    yield operation["summary"]
    parameters = [parameter for parameter in operation["parameters"] if parameter["in"] == "query"]
    if parameters:
        yield ""
        yield "| parameter | type | default | |"
        yield "|---|---|---|---|"
        for parameter in parameters:
            schema = parameter["schema"]
            default = schema.get("default", "")
            shown = str(default).lower() if isinstance(default, bool) else str(default)
            name, description = parameter["name"], parameter["description"]
            yield f"| `{name}` | {_type(schema)} | {shown} | {description} |"
    body = operation.get("requestBody")
    if body is not None:
        kinds = body["content"]
        yield ""
        yield f"Body: {_type(next(iter(kinds.values()))['schema'])}"
    yield ""
    yield "| status | |"
    yield "|---|---|"
    for status, response in operation["responses"].items():
        content: Json = next(iter(response.get("content", {}).values()), {})
        shown = f" {_type(content['schema'])}." if "schema" in content and status < "300" else ""
        yield f"| {status} | {response['description']}{shown} |"


def _body(name: str, schema: Json) -> Iterator[str]:
    yield f"### {name}"
    if schema.get("description"):
        yield ""
        yield " ".join(schema["description"].split())
    yield ""
    yield "| member | type | |"
    yield "|---|---|---|"
    required = set(schema.get("required", ()))
    for member, kind in schema.get("properties", {}).items():
        yield f"| `{member}` | {_type(kind)} | {'always there' if member in required else ''} |"


def _type(schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        kinds = [_type(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(kinds)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
