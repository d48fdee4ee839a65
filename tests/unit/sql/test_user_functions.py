"""Functions of the operator in SQL: typed, listed, called, refused with file and line."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.sql.engine.entities import described_function, listed_functions
from odradek.sql.errors import Invalid
from odradek.sql.functions.loading import BadFunctions, load, unload
from odradek.sql.testing import SqlTester

FUNCTIONS = '''
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from odradek.sql import udaf, udf, udtf


@udf
def initials(name: str) -> str:
    """Returns the first letters of the words of a name."""
    return "".join(word[0] for word in name.split())


@udf("INTEGER, INTEGER -> INTEGER", "STRING -> DECIMAL(6, 2)", name="twice")
def _twice(value, other=0):
    return value * 2 + other if isinstance(value, int) else Decimal(value) * 2


@udf
def known(value: str | None) -> bool:
    return value is not None


@udf
def later(moment: datetime, hours: int) -> datetime:
    return moment + timedelta(hours=hours)


@udf("STRING -> STRUCT<a STRING, n INT>")
def parts(text):
    return {"a": text, "n": len(text)}


@udtf
def words(text: str) -> Iterator[str]:
    yield from text.split()


@udaf("BIGINT -> BIGINT")
class product:
    """Returns the product of all values."""

    def initial(self):
        return 1

    def add(self, state, value):
        if value == 13:
            raise RuntimeError("13 is not counted")
        return state * value

    def undo(self, state, value):
        return state // value

    def merge(self, one, other):
        return one * other
'''

SETUP = """
CREATE STREAM s (k STRING KEY, name STRING, n INT) WITH (kafka_topic='s', value_format='JSON');
"""


@contextmanager
def loaded(directory: Path, text: str = FUNCTIONS) -> Iterator[list[str]]:
    (directory / "mine.py").write_text(text)
    names = load(str(directory))
    try:
        yield names
    finally:
        unload(names)


def test_functions_are_called(tmp_path: Path) -> None:
    with loaded(tmp_path) as names:
        assert names == ["INITIALS", "TWICE", "KNOWN", "LATER", "PARTS", "WORDS", "PRODUCT"]
        held = SqlTester().run(
            SETUP
            + """
            CREATE STREAM a AS SELECT k, INITIALS(name) AS i, TWICE(n, 1) AS t, TWICE('1.5') AS d,
              KNOWN(name) AS kn, PARTS(name)->n AS length,
              LATER(FROM_UNIXTIME(0), 2) AS later FROM s;
            CREATE STREAM w AS SELECT k, WORDS(name) AS word FROM s;
            CREATE TABLE p AS SELECT k, PRODUCT(n) AS total FROM s GROUP BY k;
            INSERT INTO s VALUES ('x', 'Ada Lovelace', 3);
            INSERT INTO s VALUES ('x', NULL, 13);
            INSERT INTO s VALUES ('x', 'Grace', 5);
            ASSERT VALUES a (k, i, t, d, kn, length, later)
              VALUES ('x', 'AL', 7, 3.00, true, 12, '1970-01-01T02:00:00');
            ASSERT VALUES a (k, i, kn) VALUES ('x', NULL, false);
            ASSERT VALUES w (k, word) VALUES ('x', 'Ada');
            ASSERT VALUES w (k, word) VALUES ('x', 'Lovelace');
            ASSERT VALUES p (k, total) VALUES ('x', 3);
            ASSERT VALUES p (k, total) VALUES ('x', 3);
            ASSERT VALUES p (k, total) VALUES ('x', 15);
            """
        )
        assert held == 7
    with pytest.raises(Invalid, match="there is no function INITIALS"):
        SqlTester().run(SETUP + "CREATE STREAM a AS SELECT k, INITIALS(name) AS i FROM s;")


def test_functions_are_listed_and_described(tmp_path: Path) -> None:
    with loaded(tmp_path):
        kinds = {one["name"]: one["type"] for one in listed_functions()}
        assert (kinds["INITIALS"], kinds["WORDS"], kinds["PRODUCT"]) == (
            "SCALAR", "TABLE", "AGGREGATE",
        )  # fmt: skip
        described = described_function("INITIALS")
        assert described is not None
        assert described["description"] == "Returns the first letters of the words of a name."
        assert described["path"] == f"{tmp_path}/mine.py:9"
        (variant,) = described["functions"]
        assert (variant["arguments"][0]["type"], variant["returnType"]) == ("STRING", "STRING")


def test_an_error_is_null_for_its_row(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = (
        "from odradek.sql import udf\n@udf\ndef inverse(n: int) -> float:\n    return 1 / n\n"
        "@udf\ndef wrong(n: int) -> str:\n    return n\n"
    )
    with loaded(tmp_path, text), caplog.at_level(logging.WARNING, "odradek.sql.processing"):
        tester = SqlTester()
        tester.run(
            SETUP + "CREATE STREAM a AS SELECT k, INVERSE(n) AS i, WRONG(n) AS w FROM s;"
            "INSERT INTO s VALUES ('x', 'a', 0);"
            "ASSERT VALUES a (k, i, w) VALUES ('x', NULL, NULL);"
        )
        assert any("INVERSE: ZeroDivisionError: division by zero" in one for one in tester.notes)
        assert any("WRONG returned int, but its type is STRING" in one for one in tester.notes)


UDF = "from odradek.sql import udf\n@udf"
UDAF = "from odradek.sql import udaf\n@udaf"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def f(:\n", r"mine\.py:1: invalid syntax"),
        ("x = 1\nimport nothing_there\n", r"mine\.py:2: ModuleNotFoundError"),
        (f"{UDF}\ndef f(a) -> int: ...\n", r"mine\.py:2: the type of a"),
        (f"{UDF}\ndef f(a: set) -> int: ...\n", "set is not a type of SQL"),
        (f"{UDF}\ndef f(a: int): ...\n", "result is not annotated"),
        (f"{UDF}('INT -> WHAT')\ndef f(a): ...\n", r"mine\.py:2: .*WHAT"),
        (f"{UDF}\ndef ucase(a: str) -> str: ...\n", "already a function UCASE"),
        (f"{UDAF}('INT -> INT')\nclass F: ...\n", "initial, add, merge"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(BadFunctions, match=reason), loaded(tmp_path, text):
        pass


def test_a_name_may_be_taken_once(tmp_path: Path) -> None:
    text = "from odradek.sql import udf\n@udf\ndef f(a: int) -> int:\n    return a\n"
    (tmp_path / "more.py").write_text(text)
    twice = pytest.raises(BadFunctions, match=r"more\.py:2: F is also declared at .*mine\.py:2")
    with twice, loaded(tmp_path, text):
        pass
    with pytest.raises(BadFunctions, match="is not a directory"):
        load(str(tmp_path / "nowhere"))
