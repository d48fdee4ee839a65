"""Parses `.proto` texts of proto2 and proto3 into `proto_model`.

It reads the grammar, not the meaning: `proto_file` checks names and numbers. Editions are refused.
docs/decisions/0059-protobuf-schemas.md says why this is not protoc.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from odradek.schemas.proto_model import (
    MAX_TAG,
    Enum,
    EnumValue,
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
from odradek.schemas.proto_tokens import Tokens

MAX_DEPTH: Final = 100
_LABELS: Final = frozenset({"optional", "required", "repeated"})
_SYNTAXES: Final = ("proto2", "proto3")


def parse_proto(text: str) -> ProtoFile:
    return _Parser(Tokens(text)).file()


class _Parser:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._depth = 0

    def file(self) -> ProtoFile:
        tokens = self._tokens
        syntax = package = ""
        lists: dict[str, list[Any]] = {
            name: []
            for name in (
                "imports", "public_imports", "weak_imports", "messages", "enums", "extends",
                "services", "options",
            )
        }  # fmt: skip
        while tokens.peek().kind != "end":
            match tokens.word("a declaration") if tokens.peek().text != ";" else tokens.take().text:
                case ";":
                    pass
                case "syntax":
                    syntax = self._syntax()
                case "edition":
                    tokens.fail("editions are not supported: use proto2 or proto3")
                case "package":
                    package = self._package()
                case "import":
                    self._import(lists)
                case word if word in _IN_FILES:
                    part, read = _IN_FILES[word]
                    lists[part].append(read(self))
                case other:
                    tokens.fail(
                        f"{other[:40]!r} is not a declaration: use message, enum, service, extend,"
                        " import, option or package"
                    )
        return ProtoFile(syntax, package, **{name: tuple(found) for name, found in lists.items()})

    def _package(self) -> str:
        package = self._tokens.word("a package").removeprefix(".")
        if package.count(".") >= MAX_DEPTH:
            self._tokens.fail(f"the package has more than {MAX_DEPTH} parts")
        self._tokens.expect(";")
        return package

    def _syntax(self) -> str:
        self._tokens.expect("=")
        position = self._tokens.peek().position
        syntax = self._tokens.string()
        if syntax not in _SYNTAXES:
            self._tokens.fail_at(
                position, f"the syntax {syntax!r} is unknown: use proto2 or proto3"
            )
        self._tokens.expect(";")
        return syntax

    def _import(self, lists: dict[str, list[Any]]) -> None:
        if self._tokens.accept("public"):
            into = "public_imports"
        else:
            into = "weak_imports" if self._tokens.accept("weak") else "imports"
        lists[into].append(self._tokens.string())
        self._tokens.expect(";")

    # Messages

    def _message(self) -> Message:
        return self._message_body(self._tokens.name("the name of a message"))

    def _message_body(self, name: str) -> Message:
        tokens = self._tokens
        self._depth += 1
        if self._depth > MAX_DEPTH:
            tokens.fail(f"messages are nested deeper than {MAX_DEPTH} levels")
        found: dict[str, list[Any]] = {
            part: []
            for part in (
                "fields", "oneofs", "groups", "messages", "enums", "extends", "extensions",
                "reserved", "options",
            )
        }  # fmt: skip
        tokens.expect("{")
        while not tokens.accept("}"):
            self._member(found)
        self._depth -= 1
        return Message(name, **{part: tuple(members) for part, members in found.items()})

    def _member(self, found: dict[str, list[Any]]) -> None:
        """Reads one declaration within a message. A word such as `message` begins a declaration,
        unless a field follows whose type has that name."""
        tokens = self._tokens
        if tokens.accept(";"):
            return
        keyword = tokens.peek().text
        if keyword != "option" and tokens.peek(2).text == "=":
            keyword = ""
        if keyword in _IN_MESSAGES:
            tokens.take()
            part, read = _IN_MESSAGES[keyword]
            found[part].append(read(self))
            return
        member = self._field_or_group()
        found["groups" if isinstance(member, Group) else "fields"].append(member)

    def _oneof(self) -> OneOf:
        tokens = self._tokens
        name = tokens.name("the name of a oneof")
        fields: list[Field] = []
        groups: list[Group] = []
        options: list[Option] = []
        for _ in self._declarations(options):
            position = tokens.peek().position
            member = self._field_or_group()
            if member.label:
                tokens.fail_at(position, f"a field of a oneof cannot be {member.label}")
            if isinstance(member, Group):
                groups.append(member)
            else:
                fields.append(member)
        return OneOf(name, tuple(fields), tuple(groups), tuple(options))

    def _declarations(self, options: list[Option]) -> Iterator[None]:
        """Goes through a block in braces: yields before each declaration, which the caller reads,
        and reads the options itself."""
        tokens = self._tokens
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            if tokens.accept("option"):
                options.append(self._option_statement())
            else:
                yield

    def _field_or_group(self) -> Field | Group:
        tokens = self._tokens
        label = ""
        if tokens.peek().text in _LABELS and tokens.peek(2).text != "=":
            label = tokens.take().text
        if (
            tokens.peek().text == "group"
            and tokens.peek(2).text == "="
            and (tokens.peek(4).text in {"{", "["})
        ):
            return self._group(label)
        kind = self._type()
        name = tokens.name("the name of a field")
        tokens.expect("=")
        tag = tokens.integer("the number of a field")
        options = self._bracketed_options()
        tokens.expect(";")
        default = next(
            (option.value for option in options if option[:2] == ("default", False)), None
        )
        json_name = next(
            (option.value for option in options if option[:2] == ("json_name", False)), None
        )
        return Field(
            name,
            tag,
            kind,
            label,
            default,
            None if json_name is None else str(json_name.content),
            tuple(
                option
                for option in options
                if option.is_extension or option.name not in {"default", "json_name"}
            ),
        )

    def _group(self, label: str) -> Group:
        tokens = self._tokens
        tokens.take()
        name = tokens.name("the name of a group")
        tokens.expect("=")
        tag = tokens.integer("the number of a group")
        self._bracketed_options()
        return Group(label, tag, self._message_body(name))

    def _type(self) -> str:
        tokens = self._tokens
        kind = tokens.word("a type")
        if kind == "map" and tokens.accept("<"):
            key = tokens.word("the type of the keys")
            tokens.expect(",")
            value = tokens.word("the type of the values")
            tokens.expect(">")
            return f"map<{key}, {value}>"
        return kind

    def _reserved(self, highest: int) -> tuple[Range | str, ...]:
        tokens = self._tokens
        found: list[Range | str] = []
        while True:
            if tokens.peek().kind == "string":
                found.append(tokens.string())
            elif tokens.peek().kind == "word":
                found.append(tokens.name("a reserved name"))
            else:
                found.append(self._range(highest))
            if not tokens.accept(","):
                break
        tokens.expect(";")
        return tuple(found)

    def _extensions(self) -> Extensions:
        ranges = [self._range(MAX_TAG)]
        while self._tokens.accept(","):
            ranges.append(self._range(MAX_TAG))
        options = self._bracketed_options()
        self._tokens.expect(";")
        return Extensions(tuple(ranges), options)

    def _range(self, highest: int) -> Range:
        tokens = self._tokens
        first = last = tokens.integer("a number")
        if tokens.accept("to"):
            last = highest if tokens.accept("max") else tokens.integer("the end of a range")
        if last < first:
            tokens.fail(f"the range from {first} to {last} is empty")
        return Range(first, last)

    def _extend(self) -> Extend:
        tokens = self._tokens
        name = tokens.word("the name of a message")
        fields = []
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            position = tokens.peek().position
            member = self._field_or_group()
            if isinstance(member, Group):
                tokens.fail_at(position, "groups in extend are not supported")
            fields.append(member)
        return Extend(name, tuple(fields))

    # Enums and services

    def _enum(self) -> Enum:
        tokens = self._tokens
        name = tokens.name("the name of an enum")
        values: list[EnumValue] = []
        options: list[Option] = []
        reserved: list[tuple[Range | str, ...]] = []
        tokens.expect("{")
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            if tokens.peek().text == "option" and tokens.peek(1).text != "=":
                tokens.take()
                options.append(self._option_statement())
            elif tokens.peek().text == "reserved" and tokens.peek(1).text != "=":
                tokens.take()
                reserved.append(self._reserved(2**31 - 1))
            else:
                value = tokens.name("the name of an enum's value")
                tokens.expect("=")
                tag = tokens.integer("the number of an enum's value")
                values.append(EnumValue(value, tag, self._bracketed_options()))
                tokens.expect(";")
        return Enum(name, tuple(values), tuple(options), tuple(reserved))

    def _service(self) -> Service:
        tokens = self._tokens
        name = tokens.name("the name of a service")
        rpcs: list[Rpc] = []
        options: list[Option] = []
        for _ in self._declarations(options):
            tokens.expect("rpc")
            rpcs.append(self._rpc())
        return Service(name, tuple(rpcs), tuple(options))

    def _rpc(self) -> Rpc:
        tokens = self._tokens
        name = tokens.name("the name of an rpc")
        request, is_request_stream = self._rpc_type()
        tokens.expect("returns")
        response, is_response_stream = self._rpc_type()
        options = []
        if tokens.accept("{"):
            while not tokens.accept("}"):
                if not tokens.accept(";"):
                    tokens.expect("option")
                    options.append(self._option_statement())
        else:
            tokens.expect(";")
        return Rpc(name, request, response, is_request_stream, is_response_stream, tuple(options))

    def _rpc_type(self) -> tuple[str, bool]:
        tokens = self._tokens
        tokens.expect("(")
        is_stream = tokens.peek(1).text != ")" and tokens.accept("stream")
        kind = tokens.word("a type")
        tokens.expect(")")
        return kind, is_stream

    # Options

    def _option_statement(self) -> Option:
        option = self._option()
        self._tokens.expect(";")
        return option

    def _bracketed_options(self) -> tuple[Option, ...]:
        if not self._tokens.accept("["):
            return ()
        options = [self._option()]
        while self._tokens.accept(","):
            options.append(self._option())
        self._tokens.expect("]")
        return tuple(options)

    def _option(self) -> Option:
        """Reads `name = value`, `(name) = value`, `(name).inner = value` and so on."""
        tokens = self._tokens
        is_extension = tokens.accept("(")
        name = tokens.word("the name of an option").removeprefix(".")
        inner: list[tuple[str, bool]] = []
        if is_extension:
            tokens.expect(")")
        else:
            name, *rest = name.split(".")
            inner = [(part, False) for part in rest]
        while tokens.peek().kind == "word" or tokens.peek().text in {"(", "."}:
            inner += self._inner_name()
        tokens.expect("=")
        value = self._value()
        for part, is_inner_extension in reversed(inner[:MAX_DEPTH]):
            value = Value("option", Option(part, is_inner_extension, value))
        return Option(name, is_extension, value)

    def _inner_name(self) -> list[tuple[str, bool]]:
        tokens = self._tokens
        if tokens.accept("("):
            name = tokens.word("the name of an option")
            tokens.expect(")")
            return [(name, True)]
        parts = tokens.word("the name of an option").removeprefix(".").split(".")
        return [(part, False) for part in parts]

    def _value(self) -> Value:
        tokens = self._tokens
        token = tokens.peek()
        if token.text in {"{", "<"} and token.kind == "symbol":
            return self._map("}" if token.text == "{" else ">")
        if token.text == "[" and token.kind == "symbol":
            return self._list()
        if token.kind == "string":
            return Value("string", tokens.string())
        sign = "-" if tokens.accept("-") else ""
        tokens.accept("+")
        token = tokens.take()
        if token.kind == "number":
            return Value("number", sign + token.text)
        if token.kind != "word":
            tokens.fail_at(token.position, f"a value is expected instead of {token.text[:40]!r}")
        if token.text in {"true", "false"} and not sign:
            return Value("boolean", token.text)
        return Value("enum", sign + token.text)

    def _list(self) -> Value:
        tokens = self._tokens
        self._deeper()
        tokens.expect("[")
        values: list[Value] = []
        while not tokens.accept("]"):
            values.append(self._value())
            if not tokens.accept(",") and tokens.peek().text != "]":
                tokens.fail(f"',' or ']' is expected before {tokens.peek().text[:40]!r}")
        self._depth -= 1
        return Value("list", tuple(values))

    def _map(self, end: str) -> Value:
        """Reads a message in text format. A key that occurs several times has a list."""
        tokens = self._tokens
        self._deeper()
        tokens.take()
        found: dict[str, list[Value]] = {}
        while not tokens.accept(end):
            key = f"[{self._extension_name()}]" if tokens.accept("[") else tokens.name("a key")
            tokens.accept(":")
            value = self._value()
            values = value.content if value.kind == "list" else [value]
            found.setdefault(key, []).extend(values)
            if value.kind == "list" and len(found[key]) == len(values) == 1:
                found[key] = [value]
            if not tokens.accept(","):
                tokens.accept(";")
        self._depth -= 1
        pairs = tuple(
            (key, values[0] if len(values) == 1 else Value("list", tuple(values)))
            for key, values in found.items()
        )
        return Value("map", pairs)

    def _extension_name(self) -> str:
        name = self._tokens.word("the name of an extension")
        while self._tokens.accept("/"):
            name += "/" + self._tokens.word("the name of a type")
        self._tokens.expect("]")
        return name

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._tokens.fail(f"an option is nested deeper than {MAX_DEPTH} levels")


# Declarations by their first word: the part of the file or of the message that gets them, and what
# reads the rest of them.
_Reading = tuple[str, Callable[[_Parser], Any]]
_IN_BOTH: Final[dict[str, _Reading]] = {
    "option": ("options", _Parser._option_statement),
    "message": ("messages", _Parser._message),
    "enum": ("enums", _Parser._enum),
    "extend": ("extends", _Parser._extend),
}
_IN_FILES: Final[dict[str, _Reading]] = {**_IN_BOTH, "service": ("services", _Parser._service)}
_IN_MESSAGES: Final[dict[str, _Reading]] = {
    **_IN_BOTH,
    "oneof": ("oneofs", _Parser._oneof),
    "reserved": ("reserved", lambda parser: parser._reserved(MAX_TAG)),
    "extensions": ("extensions", _Parser._extensions),
}
