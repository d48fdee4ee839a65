"""Prints `proto_model` as the `.proto` text that a schema registry stores.

The form is that of Confluent's registry: messages before enums, sections of a message separated by
an empty line, options of a field each on a line of its own if they are several.
"""

import re
from collections.abc import Iterable
from typing import Final

from odradek.schemas.proto_model import (
    MAX_TAG,
    Enum,
    Extend,
    Extensions,
    Field,
    Group,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Range,
    Rpc,
    Service,
    Value,
)

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
}
_ESCAPED: Final = re.compile(r"[\x00-\x1f\\'\"\x7f]")


def print_proto(file: ProtoFile) -> str:
    sections: list[list[str]] = []
    head = []
    if file.syntax:
        head.append(f'syntax = "{file.syntax}";')
    if file.package:
        head.append(f"package {file.package};")
    sections.append(head)
    sections.append(
        [f'import "{name}";' for name in map(_escaped, file.imports)]
        + [f'import public "{name}";' for name in map(_escaped, file.public_imports)]
        + [f'import weak "{name}";' for name in map(_escaped, file.weak_imports)]
    )
    sections.append(_option_statements(file.options))
    sections.append(
        [
            *(line for message in file.messages for line in _message(message)),
            *(line for enum in file.enums for line in _enum(enum)),
        ]
    )
    sections.append([line for extend in file.extends for line in _extend(extend)])
    sections.append([line for service in file.services for line in _service(service)])
    text = "".join(f"{line}\n" for line in sections[0])
    for section in sections[1:]:
        if section:
            text += "\n" + "".join(f"{line}\n" for line in section)
    return text


def _block(head: str, sections: Iterable[list[str]]) -> list[str]:
    """Returns the lines of a declaration with a body. Sections are separated by empty lines."""
    body: list[str] = []
    for section in sections:
        if section:
            body += [""] if body else []
            body += section
    if not body:
        return [f"{head} {{}}"]
    return [f"{head} {{", *_indented(body), "}"]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _message(message: Message, head: str | None = None) -> list[str]:
    return _block(
        head or f"message {message.name}",
        [
            [f"reserved {_ranges(one)};" for one in message.reserved],
            _option_statements(message.options),
            _fields(message.fields),
            [line for oneof in message.oneofs for line in _oneof(oneof)],
            [line for group in message.groups for line in _group(group)],
            [line for extension in message.extensions for line in _extensions(extension)],
            [line for extend in message.extends for line in _extend(extend)],
            [
                *(line for nested in message.messages for line in _message(nested)),
                *(line for enum in message.enums for line in _enum(enum)),
            ],
        ],
    )


def _group(group: Group) -> list[str]:
    label = f"{group.label} " if group.label else ""
    return _message(group.message, f"{label}group {group.message.name} = {group.tag}")


def _oneof(oneof: OneOf) -> list[str]:
    groups = [line for group in oneof.groups for line in _group(group)]
    sections = [_option_statements(oneof.options), _fields(oneof.fields), groups]
    return _block(f"oneof {oneof.name}", sections)


def _extend(extend: Extend) -> list[str]:
    return _block(f"extend {extend.name}", [_fields(extend.fields)])


def _extensions(one: Extensions) -> list[str]:
    return _with_options(f"extensions {_ranges(one.ranges)}", one.options)


def _fields(fields: Iterable[Field]) -> list[str]:
    return [line for field in fields for line in _field(field)]


def _field(field: Field) -> list[str]:
    label = f"{field.label} " if field.label else ""
    options = list(field.options)
    if field.default is not None:
        options.append(Option("default", False, field.default))
    if field.json_name is not None:
        options.append(Option("json_name", False, Value("string", field.json_name)))
    return _with_options(f"{label}{field.type} {field.name} = {field.tag}", options)


def _enum(enum: Enum) -> list[str]:
    body = [f"reserved {_ranges(one)};" for one in enum.reserved]
    body += _option_statements(enum.options)
    for value in enum.values:
        body += _with_options(f"{value.name} = {value.tag}", value.options)
    return _block(f"enum {enum.name}", [body])


def _service(service: Service) -> list[str]:
    rpcs = [line for rpc in service.rpcs for line in _rpc(rpc)]
    return _block(f"service {service.name}", [_option_statements(service.options), rpcs])


def _rpc(rpc: Rpc) -> list[str]:
    request = f"stream {rpc.request}" if rpc.is_request_stream else rpc.request
    response = f"stream {rpc.response}" if rpc.is_response_stream else rpc.response
    head = f"rpc {rpc.name} ({request}) returns ({response})"
    if not rpc.options:
        return [f"{head};"]
    return [f"{head} {{", *_indented(_option_statements(rpc.options)), "};"]


def _ranges(values: Iterable[Range | str]) -> str:
    return ", ".join(
        f'"{_escaped(value)}"' if isinstance(value, str) else _range(value) for value in values
    )


def _range(value: Range) -> str:
    if value.first == value.last:
        return str(value.first)
    return f"{value.first} to {value.last if value.last < MAX_TAG else 'max'}"


# Options


def _option_statements(options: Iterable[Option]) -> list[str]:
    lines: list[str] = []
    for option in options:
        lines += f"option {_option(option)};".split("\n")
    return lines


def _with_options(head: str, options: Iterable[Option]) -> list[str]:
    """Returns a declaration with its options in brackets."""
    bracketed = _bracketed([_option(option) for option in options])
    return f"{head}{' ' if bracketed else ''}{bracketed};".split("\n")


def _bracketed(elements: list[str]) -> str:
    if len(elements) < 2:
        return f"[{elements[0]}]" if elements else ""
    return f"[\n{_separated(elements)}]"


def _separated(elements: list[str]) -> str:
    """Returns elements with commas, each indented on lines of its own."""
    lines = ",\n".join(elements).split("\n")
    return "".join(f"{line}\n" for line in _indented(lines))


def _option(option: Option) -> str:
    name = f"({option.name})" if option.is_extension else option.name
    value = option.value
    if value.kind == "option":
        return f"{name}.{_option(value.content)}"
    if value.kind == "list":
        return f"{name} = {_bracketed([_value(element) for element in value.content]) or '[]'}"
    return f"{name} = {_value(value)}"


def _value(value: Value) -> str:
    match value.kind:
        case "string":
            return f'"{_escaped(value.content)}"'
        case "map":
            pairs = [f"{key}: {_value(inner)}" for key, inner in value.content]
            return f"{{\n{_separated(pairs) if pairs else ''}}}"
        case "list":
            elements = [_value(element) for element in value.content]
            return f"[\n{_separated(elements) if elements else ''}]"
    return str(value.content)


def _escaped(text: str) -> str:
    return _ESCAPED.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    letter = found.group()
    return _ESCAPES.get(letter) or f"\\{ord(letter):03o}"
