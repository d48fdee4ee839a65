"""Which pairs of schemas each level compares, with a format in which a reader needs all letters
of its text to be written."""

import pytest

from odradek.schemas.compatibility import Level, check, incompatibilities
from odradek.schemas.errors import InvalidSchema
from odradek.schemas.parsed import Incompatibility, ParsedSchema, SchemaType, parse


class Letters(ParsedSchema):
    def __init__(self, text: str, schema_type: SchemaType = "AVRO") -> None:
        self.text = text
        self.schema_type = schema_type
        self.references = ()

    def normalized(self) -> "Letters":
        return Letters("".join(sorted(self.text)))

    @property
    def identity(self) -> str:
        return self.normalized().text

    def incompatibilities_with(self, writer: ParsedSchema) -> list[Incompatibility]:
        return [
            Incompatibility("LETTER", letter, "the {writer} schema lacks what the {reader} needs")
            for letter in sorted(set(self.text) - set(writer.text))
        ]


def _letters(*texts: str) -> list[Letters]:
    return [Letters(text) for text in texts]


@pytest.mark.parametrize(
    ("level", "earlier", "new", "is_compatible"),
    [
        (Level.NONE, ["a"], "b", True),
        (Level.BACKWARD, [], "a", True),
        (Level.BACKWARD, ["ab"], "a", True),
        (Level.BACKWARD, ["a"], "ab", False),
        (Level.BACKWARD, ["a", "ab"], "ab", True),
        (Level.BACKWARD_TRANSITIVE, ["a", "ab"], "ab", False),
        (Level.FORWARD, ["a"], "ab", True),
        (Level.FORWARD, ["ab"], "a", False),
        (Level.FORWARD, ["ab", "a"], "a", True),
        (Level.FORWARD_TRANSITIVE, ["ab", "a"], "a", False),
        (Level.FULL, ["ab"], "ba", True),
        (Level.FULL, ["a"], "ab", False),
        (Level.FULL, ["ab"], "a", False),
        (Level.FULL, ["a", "ab"], "ab", True),
        (Level.FULL_TRANSITIVE, ["a", "ab"], "ab", False),
    ],
)
def test_a_level_compares_its_pairs(
    level: Level, earlier: list[str], new: str, is_compatible: bool
) -> None:
    assert (check(level, Letters(new), _letters(*earlier)) == []) == is_compatible


def test_messages_name_the_new_and_the_old_schema() -> None:
    backward = check(Level.BACKWARD, Letters("ab"), _letters("a"))
    assert backward[0].message == "the old schema lacks what the new needs"
    forward = check(Level.FORWARD, Letters("a"), _letters("ab"))
    assert forward[0].message == "the new schema lacks what the old needs"
    assert forward[0].described("AVRO").startswith("{errorType:'LETTER', description:'the new")


def test_only_the_newest_schema_that_does_not_fit_is_reported() -> None:
    found = check(Level.BACKWARD_TRANSITIVE, Letters("abc"), _letters("a", "ab"))
    assert [one.path for one in found] == ["c"]


def test_a_change_of_type_is_never_compatible() -> None:
    found = incompatibilities(Letters("a"), Letters("a", "JSON"))
    assert [one.type for one in found] == ["SCHEMA_TYPE_CHANGED"]


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="AVRO, JSON, PROTOBUF"):
        parse("XML", "<a/>")  # type: ignore[arg-type]
