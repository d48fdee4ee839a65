"""Functions of Python as transforms."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from odradek.connect import plugin_packages, plugins
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field
from odradek.connect.errors import DataError
from odradek.connect.records import Record
from odradek.connect.transforms.python_function import PythonFunction
from odradek.connect.transforms.transform import Side

SCHEMA = schemas.struct(Field("a", schemas.INT32))
RECORD = Record("t", value={"a": 1}, value_schema=SCHEMA)


def upper(record: Record) -> Record | None:
    return None if record.value["a"] == 0 else replace(record, topic=record.topic.upper())


def double(value: Any) -> Any:
    return {"a": value["a"] * 2}


def test_a_function_of_records() -> None:
    made = PythonFunction("upper", upper, None)
    found = made.apply(RECORD)
    assert found is not None
    assert found.topic == "T"
    assert made.apply(replace(RECORD, value={"a": 0})) is None


def test_a_function_of_values() -> None:
    made = PythonFunction("double", double, Side.VALUE)
    found = made.apply(RECORD)
    assert found is not None
    assert (found.value, found.value_schema) == ({"a": 2}, SCHEMA)
    tombstone = replace(RECORD, value=None)
    assert made.apply(tombstone) is tombstone


@pytest.mark.parametrize(
    ("function", "side", "message"),
    [
        (lambda value: {"b": 1}, Side.VALUE, "what f returns"),
        (lambda value: 1 / 0, Side.VALUE, "f failed: ZeroDivisionError"),
        (lambda record: record.value, None, "a record is needed"),
    ],
)
def test_what_a_function_does_wrong_fails_the_record(
    function: Any, side: Side | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        PythonFunction("f", function, side).apply(RECORD)


def test_a_package_that_the_workers_file_allows_brings_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "com.example.Double$Value"
    metadata = tmp_path / "shop_cleaning-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-cleaning\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(
        f"[odradek_transforms]\n{name} = {__name__}:double\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert name not in plugins.TRANSFORMS
    notes = plugin_packages.install(["shop-cleaning"])
    try:
        assert notes == [f"shop-cleaning 1.2: {name}"]
        found = plugins.make_transform(name, {}).apply(RECORD)
        assert found is not None
        assert found.value == {"a": 2}
    finally:
        cast("dict[str, Any]", plugins.TRANSFORMS).pop(name)
