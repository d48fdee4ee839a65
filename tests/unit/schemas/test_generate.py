"""`odradek schema generate`: what it writes passes mypy and ruff, runs, and means the schema."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.cli.main import main
from odradek.cli.schemas.schema import STYLES

SCHEMAS = Path(__file__).parent / "generating"
FILES = [*sorted(SCHEMAS.glob("order.*")), SCHEMAS / "numbers.avsc"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a module of each schema in each style."""
    where = tmp_path_factory.mktemp("generated")
    for style in STYLES:
        for file in FILES:
            name = f"{file.stem}_{file.suffix[1:]}_{style}.py"
            command = ["schema", "generate", str(file), "--style", style, "--out"]
            assert main([*command, str(where / name)]) == 0
    return where


def test_they_pass_mypy_and_ruff(written: Path) -> None:
    ruff = "ruff check --isolated --no-cache --select E,F,I,UP,B --target-version py311 ."
    for command in ("mypy --strict --config-file= --cache-dir cache .", ruff):
        done = subprocess.run(
            [sys.executable, "-m", *command.split()],
            check=False,
            cwd=written,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def _modules(written: Path, name: str) -> Iterator[Any]:
    for style in STYLES:
        path = written / f"{name}_{style}.py"
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def test_an_avro_record_has_its_defaults(written: Path) -> None:
    from uuid import uuid4

    for module in _modules(written, "order_avsc"):
        order = module.Order(id=uuid4(), hash=b"ab")
        assert str(order.price) == "2.58"
        assert (order.date.isoformat(), order.time.isoformat()) == ("1970-01-11", "01:00:00")
        assert order.at.timestamp() == 1.5
        assert (order.kind, order.raw, order.first.n) == ("None", b"\xff", 1)
        assert (order.class_, order.list_, order.tags) == (None, [1, 2], {'a"b': "c\nd"})
        assert order.lines is not module.Order(id=uuid4(), hash=b"ab").lines
        assert module.Order.__avro_namespace__ == "shop.v1"


def test_a_message_has_the_defaults_of_its_types(written: Path) -> None:
    for module in _modules(written, "order_proto"):
        order = module.Order()
        assert (order.id, order.at, order.lines, order.token) == ("", [], {}, None)
        assert order.state is module.OrderLineState.NEW
        assert int(module.Top.LOW) == -1
        money = module.Money(units=3)
        assert (money.currency, money.octal, money.raw) == ('EU"R', 8, b"\x01\xff")
        assert (money.factor, money.exact) == (float("inf"), True)


def test_a_json_object_has_optional_properties(written: Path) -> None:
    from uuid import uuid4

    for module in _modules(written, "order_json"):
        state = module.AnOrderState("in-work")
        order = module.AnOrder(id=uuid4(), state=state, lines=[])
        assert (order.größe, order.date, order.tree, order.first_name) == (3, None, None, "x")
        assert module.Line(count=2).of is None


def test_pydantic_reads_the_names_of_the_schema(written: Path) -> None:
    *_, module, _ = _modules(written, "order_json")
    order = module.AnOrder.model_validate(
        {"id": "8c5a3c1e-0000-0000-0000-000000000000", "state": "new", "lines": [{"count": 2}]}
        | {"first-name": "Ada", "1st": True}
    )
    assert (order.first_name, order.n1st, order.lines[0].count) == ("Ada", True, 2)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["missing.avsc"], "missing.avsc cannot be read: No such file or directory"),
        (["{}/order.txt"], "add --type AVRO"),
        (["{}/bad.avsc"], "bad.avsc: the schema has no type"),
        (["{}/bad.proto"], "bad.proto: M.a has the type Nothing, which is not defined"),
        (["{}/loop.proto"], "loop.proto imports itself, directly or by others"),
        ([], "write: odradek schema generate FILE..."),
        (["{}/order.txt", "{}/bad.avsc"], "several files need a directory"),
        (["{}/bad.avsc", "--reference", "x"], "'x' is not of the form key=value"),
    ],
)
def test_mistakes_are_answered_in_one_line(
    words: list[str], answer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "order.txt").write_text('"int"')
    (tmp_path / "bad.avsc").write_text("{}")
    (tmp_path / "bad.proto").write_text('syntax = "proto3"; message M { Nothing a = 1; }')
    (tmp_path / "loop.proto").write_text('syntax = "proto3"; import "loop.proto";')
    assert main(["schema", "generate", *(word.format(tmp_path) for word in words)]) != 0
    shown = capsys.readouterr().err
    assert answer in shown
    assert len(shown.strip().splitlines()) == 1


def test_references_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inner.avsc").write_text('{"type": "record", "name": "In", "fields": []}')
    (tmp_path / "outer.avsc").write_text(
        '{"type": "record", "name": "Out", "fields": [{"name": "of", "type": "In"}]}'
    )
    reference = ["--reference", f"In={tmp_path / 'inner.avsc'}"]
    assert main(["schema", "generate", str(tmp_path / "outer.avsc"), *reference]) == 0
    assert "class In:\n    pass" in capsys.readouterr().out
