"""Writes the Python source that decodes one message class at one version.

Everything nested is inlined into one function without dispatch. Fields of a fixed size,
and the length or tag count that follows them, become one `unpack_from`. Objects are made
without their constructor, since every field is assigned anyway.

Generated code keeps these invariants: `position` never goes back, nothing is sliced beyond
`end`, and an array is not begun unless its claimed length fits the bytes that remain and the
`allowance` of elements that the message may have in all.
`Message.decode` turns IndexError, struct.error and UnicodeDecodeError of generated code into
`MalformedMessage`.

A stepwise decoder is the same code as a generator, which yields before each element of an array, so
that a broker can do other work while it decodes a request with tens of thousands of elements.
"""

import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import cast

from odradek.protocol.generated_source import GeneratedSource
from odradek.protocol.layout import (
    FIXED_FORMATS,
    Field,
    StructType,
    contains_records,
    min_size,
    plain_fields,
    tagged_fields,
)
from odradek.protocol.types import Buffer
from odradek.protocol.wire import (
    MAX_STRING_BYTES,
    ArrayPackers,
    read_unsigned_varint,
    refuse_elements,
    refuse_length,
    refuse_null,
    refuse_tag,
    skip_tagged_fields,
)

Decoder = Callable[[Buffer, int, int], tuple[object, int]]
"""(buffer, position, end) -> (message, position after it)"""

StepwiseDecoder = Callable[[Buffer, int, int], Generator[None, None, tuple[object, int]]]


def compile_decoder(
    layout: StructType, version: int, *, flexible: bool, max_elements: int
) -> Decoder:
    source = _DecoderSource(version, flexible)
    source.function(layout, max_elements)
    return cast("Decoder", source.compile(f"<decode {layout.__name__} v{version}>", "decode"))


def compile_stepwise_decoder(
    layout: StructType, version: int, *, flexible: bool, max_elements: int
) -> StepwiseDecoder:
    source = _DecoderSource(version, flexible, stepwise=True)
    source.function(layout, max_elements)
    name = f"<decode {layout.__name__} v{version} stepwise>"
    return cast("StepwiseDecoder", source.compile(name, "decode"))


class _DecoderSource(GeneratedSource):
    def __init__(self, version: int, flexible: bool, *, stepwise: bool = False) -> None:
        super().__init__(version, flexible, stepwise=stepwise)
        self.namespace |= {
            "new": object.__new__,
            "read_varint": read_unsigned_varint,
            "skip_tags": skip_tagged_fields,
            "refuse_elements": refuse_elements,
            "refuse_length": refuse_length,
            "refuse_null": refuse_null,
            "refuse_tag": refuse_tag,
        }

    def constant(self, value: object) -> str:
        for name, known in self.namespace.items():
            if known is value:
                return name
        name = f"c{len(self.namespace)}"
        self.namespace[name] = value
        return name

    # Runs of fixed size

    def fixed(self, code: str, target: str) -> None:
        self.run.append((code, target))

    def flush(self) -> None:
        """Reads the pending run of fixed-size values at once."""
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        self.run.clear()
        if codes == "B":
            self.line(f"{targets} = buffer[position]")
            self.line("position += 1")
            return
        layout = struct.Struct(">" + codes)
        unpack = f"unpack_{codes.replace('?', 'z')}"
        self.namespace[unpack] = layout.unpack_from
        comma = "" if "," in targets else ","
        self.line(f"{targets}{comma} = {unpack}(buffer, position)")
        self.line(f"position += {layout.size}")

    # Structs

    def function(self, layout: StructType, max_elements: int) -> None:
        with self.block("def decode(buffer, position, end):"):
            if self.stepwise:
                self.line("yield")
            self.line(f"allowance = {max_elements}")
            if contains_records(layout, self.version):
                self.line("view = memoryview(buffer)")
            message = self.struct(layout)
            self.flush()
            self.line(f"return {message}, position")

    def struct(self, layout: StructType) -> str:
        """Emits the decoding of a struct and returns the variable that holds it."""
        message = self.variable("m")
        self.line(f"{message} = new({self.constant(layout)})")
        self.defaults(layout, message)
        for field in plain_fields(layout, self.version):
            self.field(field, f"{message}.{field.name}")
        if self.flexible:
            self.tags(tagged_fields(layout, self.version), message)
        return message

    def defaults(self, layout: StructType, message: str) -> None:
        """Sets the fields that this version does not have, or has as tagged fields only."""
        shared: dict[str, list[str]] = {}
        for field in layout.fields:
            if self.version in field.versions and self.version not in field.tagged:
                continue
            target = f"{message}.{field.name}"
            if not field.has_mutable_default:
                shared.setdefault(repr(field.default), []).append(target)
            elif field.kind == "array":
                self.line(f"{target} = []")
            else:
                self.line(f"{target} = {self.constant(field.element)}()")
        for default, targets in shared.items():
            self.line(f"{' = '.join(targets)} = {default}")

    def tags(self, fields: list[Field], message: str) -> None:
        count = self.variable("n")
        self.fixed("B", count)
        self.flush()
        if not fields:
            with self.block(f"if {count}:"):
                self.line("position, allowance = skip_tags(buffer, position - 1, end, allowance)")
            return
        stop = self.variable("stop")
        with self.block(f"if {count}:"):
            self.line(f"{count}, position = read_varint(buffer, position - 1)")
            self.spend(count)
            with self.block(f"for _ in range({count}):"):
                self.line("tag, position = read_varint(buffer, position)")
                self.line("n, position = read_varint(buffer, position)")
                self.line(f"{stop} = position + n")
                self.line(f"if {stop} > end: refuse_length('tagged field')")
                for index, field in enumerate(fields):
                    with self.block(f"{'elif' if index else 'if'} tag == {field.tag}:"):
                        self.field(field, f"{message}.{field.name}")
                        self.flush()
                        self.line(f"if position != {stop}: refuse_tag('{field.name}')")
                self.line(f"else: position = {stop}")

    # Fields

    def field(self, field: Field, target: str) -> None:
        kind = field.kind
        if kind in FIXED_FORMATS:
            self.fixed(FIXED_FORMATS[kind], target)
        elif kind == "struct":
            self.struct_field(field, target)
        elif kind == "array":
            self.array(field, target)
        else:
            with self.length(field.name, kind, target, nullable=self.version in field.nullable):
                self.slice(field.name, kind, target)

    def struct_field(self, field: Field, target: str) -> None:
        if field.element is None or isinstance(field.element, str):
            raise TypeError(f"{field.name} names no struct")
        if self.version not in field.nullable:
            self.line(f"{target} = {self.struct(field.element)}")
            return
        self.fixed("b", "n")
        self.flush()
        # In Kafka, -1 means null, and in a tagged field 0 does.
        least = 1 if self.version in field.tagged else 0
        self.line(f"if n < {least}: {target} = None")
        with self.block("else:"):
            self.line(f"{target} = {self.struct(field.element)}")

    @contextmanager
    def length(self, name: str, kind: str, target: str, *, nullable: bool) -> Iterator[None]:
        """Reads a length into `n`; the body of the `with` decodes a value that is not null."""
        if self.flexible:
            self.fixed("B", "n")
            self.flush()
            self.line("if n > 127: n, position = read_varint(buffer, position - 1)")
            self.line("n -= 1")
        else:
            self.fixed("h" if kind == "string" else "i", "n")
            self.flush()
        if not nullable:
            self.line(f"if n < 0: refuse_null('{name}')")
            yield
            return
        with self.block("if n >= 0:"):
            yield
        self.line(f"elif n == -1: {target} = None")
        self.line(f"else: refuse_null('{name}')")

    def slice(self, name: str, kind: str, target: str) -> None:
        self.line("stop = position + n")
        too_long = f" or n > {MAX_STRING_BYTES}" if kind == "string" else ""
        self.line(f"if stop > end{too_long}: refuse_length('{name}')")
        expression = {
            "string": "str(buffer[position:stop], 'utf-8')",
            "bytes": "bytes(buffer[position:stop])",
            "records": "view[position:stop]",
        }[kind]
        self.line(f"{target} = {expression}")
        self.line("position = stop")

    def array(self, field: Field, target: str) -> None:
        element = field.element
        if element is None:
            raise TypeError(f"{field.name} is an array of nothing")
        nullable = self.version in field.nullable
        with self.length(field.name, "array", target, nullable=nullable):
            size = min_size(element, self.version, self.flexible)
            self.line(f"if n * {size} > end - position: refuse_length('{field.name}')")
            self.spend("n")
            if isinstance(element, str) and element in FIXED_FORMATS:
                self.fixed_array(element, size, target)
                return
            items = self.variable("items")
            self.line(f"{target} = {items} = []")
            with self.block("for _ in range(n):"):
                if self.stepwise:
                    self.line("yield")
                if isinstance(element, str):
                    with self.length(field.name, element, "", nullable=False):
                        self.slice(field.name, element, "item")
                    self.line(f"{items}.append(item)")
                else:
                    self.line(f"{items}.append({self.struct(element)})")

    def spend(self, count: str) -> None:
        self.line(f"allowance -= {count}")
        self.line("if allowance < 0: refuse_elements()")

    def fixed_array(self, kind: str, size: int, target: str) -> None:
        if kind == "uuid":
            chunk = "bytes(buffer[at:at + 16])"
            self.line(f"{target} = [{chunk} for at in range(position, position + n * 16, 16)]")
        else:
            code = FIXED_FORMATS[kind]
            unpack = f"unpack_array_{code.replace('?', 'z')}"
            self.namespace[unpack] = ArrayPackers(code, "unpack_from")
            self.line(f"{target} = list({unpack}[n](buffer, position))")
        self.line(f"position += n * {size}")
