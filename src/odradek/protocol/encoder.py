"""Writes the Python source that encodes one message class at one version.

The mirror of `decoder`: nested structs are inlined, and fields of a fixed size, with the
length and the empty tag section that follow them, become one `pack`. Small byte strings
collect in `out`; records are never copied, they become a part of their own between joined bytes.

A stepwise encoder is the same code as a generator, which yields before each element of an array, so
that a broker can do other work while it encodes a response with tens of thousands of elements. It
joins the byte strings as it goes, into parts of some ten kilobytes: to join half a million at the
end took eighty milliseconds.
"""

import struct
from collections.abc import Callable, Generator
from typing import Final, cast

from odradek.protocol.generated_source import GeneratedSource
from odradek.protocol.layout import (
    FIXED_FORMATS,
    Field,
    StructType,
    contains_records,
    plain_fields,
    tagged_fields,
)
from odradek.protocol.types import Part
from odradek.protocol.wire import ArrayPackers, check_string_length, unsigned_varint

Encoder = Callable[[object, list[bytes]], list[Part]]
"""(message, byte strings that come first) -> parts"""

StepwiseEncoder = Callable[[object, list[bytes]], Generator[None, None, list[Part]]]

# A stepwise encoder joins this many byte strings at once, which takes a tenth of a millisecond.
_PIECES_A_PART: Final = 2000


def compile_encoder(layout: StructType, version: int, *, flexible: bool) -> Encoder:
    source = _EncoderSource(version, flexible)
    source.function(layout)
    return cast("Encoder", source.compile(f"<encode {layout.__name__} v{version}>", "encode"))


def compile_stepwise_encoder(
    layout: StructType, version: int, *, flexible: bool
) -> StepwiseEncoder:
    source = _EncoderSource(version, flexible, stepwise=True)
    source.function(layout)
    name = f"<encode {layout.__name__} v{version} stepwise>"
    return cast("StepwiseEncoder", source.compile(name, "encode"))


class _EncoderSource(GeneratedSource):
    def __init__(self, version: int, flexible: bool, *, stepwise: bool = False) -> None:
        super().__init__(version, flexible, stepwise=stepwise)
        self.namespace |= {
            "join": b"".join,
            "check_string_length": check_string_length,
            "varint": unsigned_varint,
        }

    # Runs of fixed size

    def fixed(self, code: str, expression: str = "") -> None:
        self.run.append((code, expression))

    def packed(self, *more: tuple[str, str]) -> str:
        """Returns an expression for the bytes of the pending run and of what follows it."""
        run = [*self.run, *more]
        codes = "".join(code for code, _ in run)
        if not codes.strip("x"):
            return repr(bytes(len(codes)))
        pack = f"pack_{codes.replace('?', 'z')}"
        self.namespace[pack] = struct.Struct(">" + codes).pack
        return f"{pack}({', '.join(expression for _, expression in run if expression)})"

    def flush(self) -> None:
        if self.run:
            self.line(f"out.append({self.packed()})")
            self.run.clear()

    def length(self, kind: str) -> None:
        """Writes the pending run, followed by `n`: a count, or -1 for null."""
        if not self.flexible:
            self.fixed("h" if kind == "string" else "i", "n")
            self.flush()
            return
        self.line(f"if n < 127: out.append({self.packed(('B', 'n + 1'))})")
        with self.block("else:"):
            self.flush()
            if kind == "string":
                self.line("check_string_length(n)")
            self.line("out.append(varint(n + 1))")

    # Structs

    def function(self, layout: StructType) -> None:
        with self.block("def encode(m, out):"):
            has_records = contains_records(layout, self.version)
            if self.stepwise:
                self.line("yield")
            if has_records or self.stepwise:
                self.line("parts = []")
            self.struct(layout, "m")
            self.flush()
            if has_records or self.stepwise:
                self.line("if out: parts.append(join(out))")
                self.line("return parts")
            else:
                self.line("return [join(out)]")

    def struct(self, layout: StructType, message: str) -> None:
        for field in plain_fields(layout, self.version):
            self.field(field, f"{message}.{field.name}")
        if self.flexible:
            self.tags(tagged_fields(layout, self.version), message)

    def tags(self, fields: list[Field], message: str) -> None:
        """Writes tagged fields, which are left out if they have their default. That is the usual
        case, so one test finds it, and the rest is in functions of its own."""
        if not fields:
            self.fixed("x")
            return
        tests = []
        for field in fields:
            function = self.tag_function(field)
            present = self.presence(field, f"{message}.{field.name}")
            tests.append((present, function, f"{message}.{field.name}"))
        self.flush()
        with self.block(f"if {' or '.join(present for present, _, _ in tests)}:"):
            self.line("tags = []")
            for present, function, value in tests:
                self.line(f"if {present}: tags.append({function}({value}))")
            self.line("out.append(varint(len(tags)))")
            self.line("out += tags")
        self.line("else: out.append(b'\\0')")

    def presence(self, field: Field, value: str) -> str:
        if field.default is None:
            present = f"{value} is not None"
            if field.kind != "struct" or isinstance(field.element, str | None):
                return present
            if self.version in field.nullable:
                # An absent tagged struct has its defaults in Kafka, so null has to be written.
                return "True"
            # A struct with defaults only means the same as an absent struct.
            unset = f"unset_{field.name}"
            self.namespace[unset] = field.element()
            return f"({present} and {value} != {unset})"
        if field.kind == "array":
            return f"{value} is None or {value}" if self.version in field.nullable else value
        return f"{value} != {field.default!r}"

    def tag_function(self, field: Field) -> str:
        """Writes a function that returns the tag, the size and the content of a tagged field."""
        name = self.variable("tag")
        lines, depth, run, stepwise = self.lines, self.depth, self.run, self.stepwise
        # This function is called for its value, so it cannot be a generator.
        self.lines, self.depth, self.run, self.stepwise = [], 0, [], False
        with self.block(f"def {name}(value):"):
            self.line("out = []")
            self.field(field, "value")
            self.flush()
            self.line("content = join(out)")
            self.line(f"return varint({field.tag}) + varint(len(content)) + content")
        self.functions += self.lines
        self.lines, self.depth, self.run, self.stepwise = lines, depth, run, stepwise
        return name

    # Fields

    def field(self, field: Field, value: str) -> None:
        kind = field.kind
        if kind in FIXED_FORMATS:
            self.fixed(FIXED_FORMATS[kind], value)
        elif kind == "struct":
            self.struct_field(field, value)
        elif kind == "array":
            self.array(field, value)
        elif kind == "records":
            self.records(field, value)
        else:
            self.text(kind, value, nullable=self.version in field.nullable)

    def struct_field(self, field: Field, value: str) -> None:
        if field.element is None or isinstance(field.element, str):
            raise TypeError(f"{field.name} names no struct")
        message = self.variable("m")
        self.line(f"{message} = {value}")
        if self.version not in field.nullable:
            self.struct(field.element, message)
            return
        self.flush()
        null = b"\0" if self.version in field.tagged else b"\xff"
        self.line(f"if {message} is None: out.append({null!r})")
        with self.block("else:"):
            self.fixed("b", "1")
            self.struct(field.element, message)

    def text(self, kind: str, value: str, *, nullable: bool) -> None:
        content = f"{value}.encode()" if kind == "string" else value
        if nullable:
            self.line(f"if {value} is None: content = b''; n = -1")
            self.line(f"else: content = {content}; n = len(content)")
        else:
            self.line(f"content = {content}; n = len(content)")
        self.length(kind)
        self.line("out.append(content)")

    def records(self, field: Field, value: str) -> None:
        records = self.variable("records")
        self.line(f"{records} = {value}")
        self.count(records, nullable=self.version in field.nullable)
        self.length("records")
        with self.block(f"if {records} is not None:"):
            self.line("parts.append(join(out))")
            self.line(f"parts.append({records})")
            self.line("out.clear()")

    def array(self, field: Field, value: str) -> None:
        element = field.element
        nullable = self.version in field.nullable
        items = self.variable("items")
        self.line(f"{items} = {value}")
        self.count(items, nullable=nullable)
        self.length("array")
        several = f"{items} or ()" if nullable else items
        if isinstance(element, str) and element in FIXED_FORMATS:
            packed = f"join({items})"
            if element != "uuid":
                code = FIXED_FORMATS[element]
                pack = f"pack_array_{code.replace('?', 'z')}"
                self.namespace[pack] = ArrayPackers(code, "pack")
                packed = f"{pack}[n](*{items})"
            self.line(f"if n > 0: out.append({packed})")
            return
        item = self.variable("m")
        with self.block(f"for {item} in {several}:"):
            if self.stepwise:
                self.line("yield")
                with self.block(f"if len(out) > {_PIECES_A_PART}:"):
                    self.line("parts.append(join(out))")
                    self.line("out.clear()")
            if isinstance(element, str):
                self.text(element, item, nullable=False)
            elif element is not None:
                self.struct(element, item)

    def count(self, items: str, *, nullable: bool) -> None:
        null = f"-1 if {items} is None else " if nullable else ""
        self.line(f"n = {null}len({items})")
