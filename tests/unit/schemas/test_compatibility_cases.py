"""The verdicts of the three formats at the seven levels: tests/unit/schemas/cases/*.cases, and all
pairs of scalar types."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.schemas.compatibility import Level, check, incompatibilities
from odradek.schemas.parsed import SCHEMA_TYPES, ParsedSchema, SchemaType, parse

CASES = Path(__file__).parent / "cases"
_MARK = re.compile(r"([BF]T?)([+-])([A-Z_]*)")


class Case(NamedTuple):
    schema_type: SchemaType
    name: str
    verdicts: dict[str, bool]
    reasons: dict[str, str]
    texts: list[str]

    def schemas(self) -> list[ParsedSchema]:
        return [parse(self.schema_type, text) for text in self.texts]

    def expected(self) -> dict[Level, bool]:
        backward, forward = self.verdicts["B"], self.verdicts["F"]
        all_backward = self.verdicts.get("BT", backward)
        all_forward = self.verdicts.get("FT", forward)
        return {
            Level.NONE: True,
            Level.BACKWARD: backward,
            Level.BACKWARD_TRANSITIVE: all_backward,
            Level.FORWARD: forward,
            Level.FORWARD_TRANSITIVE: all_forward,
            Level.FULL: backward and forward,
            Level.FULL_TRANSITIVE: all_backward and all_forward,
        }


def _read(schema_type: SchemaType) -> Iterator[Case]:
    lines = (CASES / f"{schema_type.lower()}.cases").read_text().splitlines()
    head, texts = "", []
    for line in [*lines, "end"]:
        if line.startswith("  "):
            texts.append(_text(schema_type, line.strip()))
        elif line and not line.startswith("#"):
            if head:
                yield _case(schema_type, head, texts)
            head, texts = line, []


def _text(schema_type: SchemaType, line: str) -> str:
    if schema_type != "PROTOBUF":
        return line
    syntax, body = ("proto2", line[6:]) if line.startswith("proto2") else ("proto3", line)
    return f'syntax = "{syntax}"; {body}'


def _case(schema_type: SchemaType, head: str, texts: list[str]) -> Case:
    words = head.split()
    marks = list(itertools.takewhile(_MARK.fullmatch, words))
    found = [match for mark in marks if (match := _MARK.fullmatch(mark))]
    return Case(
        schema_type,
        " ".join(words[len(marks) :]),
        {match[1]: match[2] == "+" for match in found},
        {match[1]: match[3] for match in found if match[3]},
        texts,
    )


ALL = [case for kind in SCHEMA_TYPES for case in _read(kind)]


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.schema_type}: {case.name}")
def test_each_level_gives_its_verdict(case: Case) -> None:
    *earlier, new = case.schemas()
    verdicts = {level: not check(level, new, earlier) for level in Level}
    assert verdicts == case.expected()


@pytest.mark.parametrize(
    "case",
    [case for case in ALL if case.reasons],
    ids=lambda case: f"{case.schema_type}: {case.name}",
)
def test_reasons_have_their_names(case: Case) -> None:
    *_, old, new = case.schemas()
    for letter, reason in case.reasons.items():
        found = incompatibilities(new, old) if letter == "B" else incompatibilities(old, new)
        assert reason in [one.type for one in found]
        for one in found:
            sentence = one.sentence("new", "old")
            assert len(sentence) > 30
            assert "{" not in sentence
            assert "PATH" not in sentence


def test_no_case_is_written_twice() -> None:
    texts = [(case.schema_type, *case.texts) for case in ALL]
    assert len(set(texts)) == len(texts)


# All pairs of scalar types

AVRO_READS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}
AVRO_TYPES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]


@pytest.mark.parametrize(("reader", "writer"), list(itertools.product(AVRO_TYPES, repeat=2)))
def test_promotions_of_avro(reader: str, writer: str) -> None:
    expected = reader == writer or writer in AVRO_READS.get(reader, ())
    found = incompatibilities(parse("AVRO", f'"{reader}"'), parse("AVRO", f'"{writer}"'))
    assert (not found) == expected


JSON_TYPES = ["string", "integer", "number", "boolean", "null", "array", "object"]


@pytest.mark.parametrize(("reader", "writer"), list(itertools.product(JSON_TYPES, repeat=2)))
def test_types_of_json(reader: str, writer: str) -> None:
    expected = reader == writer or (reader, writer) == ("number", "integer")
    read = parse("JSON", f'{{"type": "{reader}"}}')
    written = parse("JSON", f'{{"type": "{writer}"}}')
    assert (not incompatibilities(read, written)) == expected


PROTOBUF_GROUPS = [
    {"int32", "int64", "uint32", "uint64", "bool", "E"},
    {"sint32", "sint64"},
    {"string", "bytes"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
    {"float"},
    {"double"},
]
PROTOBUF_TYPES = sorted(set().union(*PROTOBUF_GROUPS))


@pytest.mark.parametrize("reader", PROTOBUF_TYPES)
def test_groups_of_scalars_of_protobuf(reader: str) -> None:
    template = 'syntax = "proto3"; enum E {{ A = 0; }} message M {{ {} a = 1; }}'
    read = parse("PROTOBUF", template.format(reader))
    accepted = {
        writer
        for writer in PROTOBUF_TYPES
        if not incompatibilities(read, parse("PROTOBUF", template.format(writer)))
    }
    assert accepted == next(group for group in PROTOBUF_GROUPS if reader in group)
