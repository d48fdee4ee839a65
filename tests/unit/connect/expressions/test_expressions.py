"""What expressions give, and that no text makes them do anything else."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.connect import plugins
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field, Schema, Type
from odradek.connect.errors import ConnectError, DataError, InvalidConfig
from odradek.connect.expressions.compiling import compile_expression
from odradek.connect.expressions.functions import like
from odradek.connect.expressions.parsing import Notation, parse, parse_columns
from odradek.connect.expressions.records import field_scope, record_scope
from odradek.connect.records import Header, Record
from odradek.connect.transforms.transform import Side, Transform

ORDER = schemas.struct(
    Field("id", schemas.INT32),
    Field("price", schemas.decimal(2, is_optional=True)),
    Field("weight", schemas.FLOAT64.optional()),
    Field("name", schemas.OPTIONAL_STRING),
    Field("paid", schemas.BOOLEAN),
    Field("at", schemas.timestamp()),
    Field("home", schemas.struct(Field("city", schemas.STRING), name="Home", is_optional=True)),
    Field("tags", schemas.array(schemas.STRING)),
    Field("order by", schemas.INT64),
    name="Order",
)
VALUE: dict[str, Any] = {
    "id": 5, "price": Decimal("2.50"), "weight": 1.5, "name": "Ada", "paid": True,
    "at": datetime(2024, 1, 2, tzinfo=UTC), "home": {"city": "Brno"}, "tags": ["a", "b"],
    "order by": 1,
}  # fmt: skip
RECORD = Record("orders", "k", VALUE, schemas.STRING, ORDER, headers=(Header("h", None, "x"),))


def sql(text: str, record: Record = RECORD) -> tuple[Any, Schema | None]:
    scope = field_scope(Side.VALUE, record.key_schema, record.value_schema)
    compiled = compile_expression(parse(text), scope)
    return compiled.get(record), compiled.schema


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("-2 - -3", 1), ("7 % 4", 3), ("7 / 2", 3.5),
        ("id + 1", 6), ("price * 2", Decimal("5.00")), ("price * weight", 3.75),
        ("'a' || id", "a5"), ("'it''s'", "it's"), ("name || null", None),
        ("id = 5", True), ("id <> 5", False), ("price >= 2.5", True), ("null = null", None),
        ("name IS NULL", False), ("name IS NOT NULL", True), ("NOT paid", False),
        ("id IN (1, 5)", True), ("id NOT IN (1, 2)", True), ("id IN (1, null)", None),
        ("name LIKE 'A%'", True), ("name NOT LIKE '_d_'", False),
        ("id BETWEEN 5 AND 6", True), ("id NOT BETWEEN 1 AND 4", True),
        ("paid AND null", None), ("NOT paid AND null", False), ("paid OR null", True),
        ("CASE WHEN id > 3 THEN 'big' ELSE 'small' END", "big"),
        ("CASE id WHEN 1 THEN 'one' END", None), ("CASE WHEN paid THEN 1 ELSE 2.5 END", 1.0),
        ("CAST(id AS STRING)", "5"), ("CAST('7' AS INT) + 1", 8), ("CAST(null AS INT)", None),
        ("coalesce(null, name, 'x')", "Ada"), ("nullif(id, 5)", None),
        ("upper(name) || lower('X')", "ADAx"), ("substring(name, 2)", "da"),
        ("substr(name, -2, 1)", "d"), ("length(name)", 3), ("replace(name, 'A', 'I')", "Ida"),
        ("round(2.345, 2)", 2.35), ("round(price)", Decimal(3)), ("floor(-1.5)", -2),
        ("home.city", "Brno"), ("tags[1]", "b"), ("tags[9]", None), ('"order by" + 1', 2),
        ("at > TIMESTAMP '2024-01-01T00:00:00Z'", True), ("DATE '2024-01-01'", date(2024, 1, 1)),
        ("topic || '/' || key", "orders/k"), ("headers['h']", "x"), ("value.id", 5),
        ("concat(id, '-', paid)", "5-true"), ("regexp_matches(name, 'A.*')", True),
    ],
)  # fmt: skip
def test_sql(text: str, expected: Any) -> None:
    found, _ = sql(text)
    assert found == expected
    assert type(found) is type(expected)
    # Without a schema it gives the same, with the types of the values.
    plain = replace(RECORD, value_schema=None, key_schema=None)
    assert sql(text, plain)[0] in {expected, None} or sql(text, plain)[0] == expected


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("id", schemas.INT32), ("id + 1", schemas.INT64.optional()),
        ("price + 1", schemas.decimal(2, is_optional=True)),
        ("price * price", schemas.decimal(4, is_optional=True)),
        ("price / 2", schemas.FLOAT64.optional()), ("name", schemas.OPTIONAL_STRING),
        ("upper(name)", schemas.OPTIONAL_STRING), ("id > 1", schemas.BOOLEAN.optional()),
        ("home.city", schemas.OPTIONAL_STRING), ("tags[0]", schemas.OPTIONAL_STRING),
        ("CASE WHEN paid THEN id ELSE null END", schemas.INT32.optional()),
        ("coalesce(weight, id)", schemas.FLOAT64.optional()),
        ("CAST(id AS TINYINT)", schemas.INT8.optional()),
    ],
)  # fmt: skip
def test_results_have_schemas(text: str, schema: Schema) -> None:
    assert sql(text)[1] == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 +", "'the end' at character 4: a value is expected"),
        ("a b", "'b' at character 3"),
        ("(1", r"\) is expected"),
        ("#", "at character 1 is not expected"),
        ("nme", "there is no field nme; did you mean name"),
        ("uper(name)", "there is no function uper; did you mean UPPER"),
        ("home.town", "there is no field town"),
        ("name + 1", "is not a number"),
        ("upper()", "upper takes 1 arguments, and has 0"),
        ("CAST(id AS money)", "is not one of the types"),
        ("CASE WHEN paid THEN 1 ELSE 'a' END", "results of several types"),
        ("(" * 100 + "1" + ")" * 100, "nested too deeply"),
        ("1" * 20_000, "may have"),
        ("name NOT 5", "IN, LIKE or BETWEEN"),
        ("at.year", "there is no field year"),
    ],
)
def test_wrong_expressions_are_explained(text: str, message: str) -> None:
    with pytest.raises((InvalidConfig, DataError), match=message):
        sql(text)


@pytest.mark.parametrize("text", ["1 / 0", "paid + 1", "name > 5", "round('x')", "NOT name"])
def test_values_that_do_not_fit_are_failed_records(text: str) -> None:
    with pytest.raises(DataError):
        sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "value.__class__", "topic.__class__.__mro__",
        "open('/etc/passwd')", "headers.__class__", "''.class", "value.getClass()",
        "java.lang.Runtime.getRuntime()", "lambda: 1", "[x for x in y]", "new File('/')",
    ],
)  # fmt: skip
def test_nothing_but_the_record_is_seen(text: str) -> None:
    """Each is refused, or gives null."""
    plain = replace(RECORD, value_schema=None, key_schema=None)
    for notation in Notation:
        scope = record_scope(None, None)
        with suppress(InvalidConfig, DataError):
            assert compile_expression(parse(text, notation), scope).get(plain) is None


@given(st.text(), st.sampled_from(Notation))
def test_any_text_is_an_expression_or_explained(text: str, notation: Notation) -> None:
    with suppress(ConnectError):
        compile_expression(parse(text, notation), record_scope(None, None)).get(RECORD)


@given(st.text("ab%_", max_size=12), st.text("ab", max_size=12))
def test_like_is_that_of_regular_expressions(pattern: str, text: str) -> None:
    import re

    expression = "".join({"%": ".*", "_": "."}.get(letter, letter) for letter in pattern)
    assert like(text, pattern) is (re.fullmatch(expression, text) is not None)


def test_like_takes_no_time_for_patterns_that_are_made_to() -> None:
    assert not like("a" * 2000, "%a" * 500 + "b")


# Transforms


def transform(name: str, **options: str) -> Transform:
    given = {option.replace("_", "."): text for option, text in options.items()}
    return plugins.make_transform(name, given)


SQL = "odradek.connect.transforms.Sql$Value"


def test_sql_computes_fields() -> None:
    made = transform(SQL, select="id, upper(name) AS name, price * 2 AS twice", where="id > 1")
    found = made.apply(RECORD)
    assert found is not None
    assert found.value == {"id": 5, "name": "ADA", "twice": Decimal("5.00")}
    assert found.value_schema == schemas.struct(
        Field("id", schemas.INT32),
        Field("name", schemas.OPTIONAL_STRING),
        Field("twice", schemas.decimal(2, is_optional=True)),
        name="Order",
    )
    assert transform(SQL, where="id > 5").apply(RECORD) is None
    assert transform(SQL, where="price > weight OR name = 'x'").apply(RECORD) is RECORD
    tombstone = replace(RECORD, value=None, value_schema=None)
    assert made.apply(tombstone) is tombstone


def test_sql_keeps_all_fields_but_some() -> None:
    made = transform(SQL, select="* EXCEPT (tags, home), lower(name) AS name, topic AS source")
    for record in (RECORD, replace(RECORD, value_schema=None)):
        found = made.apply(record)
        assert found is not None
        assert found.value == {
            "id": 5, "price": Decimal("2.50"), "weight": 1.5, "name": "ada", "paid": True,
            "at": VALUE["at"], "order by": 1, "source": "orders",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": "id +"}, "a value is expected"),
        ({"select": "id + 1"}, "needs a name: AS name"),
        ({"where": "id ="}, "a value is expected"),
    ],
)
def test_wrong_sql_is_found_before_the_start(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        transform(SQL, **options)


def test_a_where_that_is_no_condition() -> None:
    with pytest.raises(DataError, match="must be a condition"):
        transform(SQL, where="id + 1").apply(RECORD)


CHANGE = {"op": "u", "before": {"id": 2}, "after": {"id": 3, "name": "x"}}
ROUTER, FILTER = (f"io.debezium.transforms.{name}" for name in ("ContentBasedRouter", "Filter"))


@pytest.mark.parametrize("language", ["jsr223.groovy", "jsr223.graal.js"])
@pytest.mark.parametrize(
    ("condition", "stays"),
    [
        ("value.op == 'u' && value.before.id == 2", True),
        ("value.op == 'c' || value.after.id > 5", False),
        ("value.after != null && !(value.op == 'd')", True),
        ("value.before.missing == null", True),
        ('value.after.name.startsWith("x")', True),
        ("topic == 'changes' && key == 'k'", True),
        ("header.h.value == 'x'", True),
        ("value.get == null", True),
        ("value['op'] in ['u']", None),
        ("(value.after.id ?: 0) % 2 == 1", True),
    ],
)
def test_debeziums_filter(language: str, condition: str, stays: bool | None) -> None:
    record = Record("changes", "k", CHANGE, headers=(Header("h", None, "x"),))
    if stays is None:
        with pytest.raises(InvalidConfig):
            transform(FILTER, language=language, condition=condition)
        return
    made = transform(FILTER, language=language, condition=condition)
    assert (made.apply(record) is record) is stays


def test_debeziums_router() -> None:
    options = {
        "language": "jsr223.groovy",
        "topic.expression": "value.op == 'u' ? 'updates' : null",
        "topic.regex": "changes.*",
    }
    made = plugins.make_transform(ROUTER, options)
    record = Record("changes", "k", CHANGE)
    found = made.apply(record)
    assert found is not None
    assert found.topic == "updates"
    created = replace(record, value={"op": "c"})
    assert made.apply(created) is created
    other = replace(record, topic="other")
    assert made.apply(other) is other
    tombstone = replace(record, value=None)
    assert made.apply(tombstone) is tombstone
    dropping = plugins.make_transform(ROUTER, {**options, "null.handling.mode": "drop"})
    assert dropping.apply(tombstone) is None


def test_columns_have_names() -> None:
    assert [column.name for column in parse_columns("a, b.c, d AS e, f g, *")] == [
        "a", "c", "e", "g", "*",
    ]  # fmt: skip
    assert Type.STRUCT is ORDER.type
