"""How versions of a schema are compared and laid out."""

import json
import time

from odradek.console.pages.schemas import differences, pretty


def test_lines_are_added_removed_or_the_same() -> None:
    assert differences("a\nb\nc", "a\nx\nc\nd") == [
        ("same", "a"), ("removed", "b"), ("added", "x"), ("same", "c"), ("added", "d"),
    ]  # fmt: skip
    assert differences("", "a") == [("added", "a")]


def test_versions_of_which_every_line_differs_a_little_take_no_time() -> None:
    before = "\n".join(f'  "name": "field_number_{index}",' for index in range(2000))
    began_s = time.process_time()
    found = differences(before, before.replace("number", "count"))
    assert len(found) == 4000
    assert time.process_time() - began_s < 2
    ((kind, words),) = differences(before * 5, before)
    assert kind == "same"
    assert "are not compared" in words


def test_schemas_have_a_field_a_line() -> None:
    assert pretty('{"type": "string"}') == '{\n  "type": "string"\n}'
    assert pretty('syntax = "proto3";') == 'syntax = "proto3";'
    deep = "[" * 100_000 + "]" * 100_000
    assert pretty(deep) == deep
    wide = json.dumps({"a": 1})
    for _ in range(100):
        wide = f'{{"a": {wide}}}'
    many = f"[{','.join([wide] * 50)}]"
    assert pretty(many) == many
