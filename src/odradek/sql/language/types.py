"""Types of columns as they are written: INT, DECIMAL(5, 2), ARRAY<STRUCT<name STRING>>."""

from collections.abc import Mapping

from sqlglot.tokenizer_core import Token, TokenType

from odradek.config.spelling import did_you_mean
from odradek.sql.errors import Invalid, Place
from odradek.sql.language.dialect import Cursor
from odradek.streams.plan.types import (
    NAMED,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)


class TypeCursor(Cursor):
    """Takes types. `custom_types` are those that CREATE TYPE has named."""

    def __init__(self, text: str, tokens: list[Token], custom_types: Mapping[str, SqlType]) -> None:
        super().__init__(text, tokens)
        self.custom_types = custom_types

    def _read_type(self) -> SqlType:
        place = self._place()
        name = self._read_type_name()
        if name == "ARRAY" and self._take(TokenType.LT):
            element = self._read_type()
            self._expect_gt()
            kind: SqlType = ArrayType(element)
        elif name == "MAP" and self._take(TokenType.LT):
            key = self._read_type()
            self._expect(TokenType.COMMA, "','")
            value = self._read_type()
            self._expect_gt()
            kind = MapType(key, value)
        elif name == "STRUCT" and (self._is(TokenType.LT) or self._is(TokenType.NEQ)):
            kind = self._read_struct()
        elif name in ("DECIMAL", "DEC", "NUMERIC") and self._is(TokenType.L_PAREN):
            kind = self._read_decimal()
        elif name in ("DECIMAL", "ARRAY", "MAP", "STRUCT"):
            self._fail("'('" if name == "DECIMAL" else "'<'")
        else:
            kind = self._named(name, place)
            if name in ("VARCHAR", "STRING") and self._take(TokenType.L_PAREN):
                # A length is taken and means nothing, as in ksqlDB.
                self._read_whole_number() if not self._take(TokenType.VAR) else None
                self._expect(TokenType.R_PAREN, "')'")
        while self._take_word("ARRAY"):
            kind = ArrayType(kind)
        return kind

    def _read_type_name(self) -> str:
        word = self._take_word("DECIMAL")
        return word or self._read_name("a type")

    def _named(self, name: str, place: Place) -> SqlType:
        known = NAMED.get(name) or self.custom_types.get(name)
        if known is None:
            near = did_you_mean(name, [*NAMED, "DECIMAL", "ARRAY", "MAP", *self.custom_types])
            raise Invalid(f"there is no type {name}{near}", place)
        return known

    def _read_struct(self) -> StructType:
        if self._take(TokenType.NEQ):  # <> is one symbol
            return StructType(())
        self._expect(TokenType.LT, "'<'")
        fields: list[tuple[str, SqlType]] = []
        while True:
            place = self._place()
            name = self._read_name("the name of a field")
            if any(name == other for other, _ in fields):
                raise Invalid(f"the field {name} is named twice", place)
            fields.append((name, self._read_type()))
            if not self._take(TokenType.COMMA):
                break
        self._expect_gt()
        return StructType(tuple(fields))

    def _read_decimal(self) -> DecimalType:
        place = self._place()
        self._expect(TokenType.L_PAREN, "'('")
        precision = self._read_whole_number()
        self._expect(TokenType.COMMA, "','")
        scale = self._read_whole_number()
        self._expect(TokenType.R_PAREN, "')'")
        if precision < 1 or scale < 0 or scale > precision:
            raise Invalid(
                f"DECIMAL({precision}, {scale}) is not a type: the precision is 1 at least, and the"
                " scale from 0 to the precision",
                place,
            )
        return DecimalType(precision, scale)

    def _expect_gt(self) -> None:
        self._expect(TokenType.GT, "'>'")
