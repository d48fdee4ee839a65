"""A pipeline's file, in either form, before Spark runs."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from odradek.spark.pipelines.building import function_of, import_file
from odradek.spark.pipelines.loading import load
from odradek.spark.pipelines.spec import BadPipeline


def written(tmp_path: Path, name: str, text: str) -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def test_a_python_file_names_itself_and_its_settings(tmp_path: Path) -> None:
    text = 'NAME = "mine"\nSPARK = {"spark.x": 3}\ndef pipeline(spark):\n    return spark\n'
    pipeline = load(written(tmp_path, "p.py", text))
    assert (pipeline.name, pipeline.spark) == ("mine", {"spark.x": "3"})
    assert load(written(tmp_path, "q.py", text), "other").name == "other"


def test_a_file_is_a_module_as_any_other(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Point:\n    x: int\n"
    )
    module = import_file(written(tmp_path, "points.py", text))
    assert [one.name for one in fields(module.Point)] == ["x"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("p.txt", "", "must end in .py or .toml"),
        ("p.py", "x = 1", "no function pipeline"),
        ("p.toml", "[source]", "a \\[source\\] is needed"),
    ],
)
def test_a_file_that_is_no_pipeline(name: str, text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadPipeline, match=said):
        load(written(tmp_path, name, text))


def test_a_checkpoint_cannot_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    options = f'options = {{ checkpointLocation = "{tmp_path}/taken" }}'
    text = f'[source]\ntopic = "a"\n[sink]\ntopic = "b"\n{options}\n'
    with pytest.raises(BadPipeline, match=r"checkpointLocation .*/taken is a file"):
        load(written(tmp_path, "p.toml", text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for name in ("p.toml", "p.py"):
        with pytest.raises(BadPipeline, match=f"{name}: "):
            load(str(tmp_path / name))


def test_what_was_started_already_is_refused(tmp_path: Path) -> None:
    text = "def pipeline(spark):\n    return 3\n"
    pipeline = load(written(tmp_path, "started.py", text))
    with pytest.raises(BadPipeline, match="returned int"):
        pipeline.build(None)


def test_functions_beside_the_file(tmp_path: Path) -> None:
    written(tmp_path, "steps.py", "def shout(frame):\n    return frame\n")
    assert callable(function_of("steps.py:shout", str(tmp_path)))
    with pytest.raises(BadPipeline, match="no function whisper"):
        function_of("steps.py:whisper", str(tmp_path))
    with pytest.raises(BadPipeline, match="No module named"):
        function_of("no_such_module_here:f", str(tmp_path))


def test_a_query_that_the_program_starts_itself_is_answered(tmp_path: Path) -> None:
    text = (
        "def pipeline(spark):\n"
        "    raise RuntimeError('checkpointLocation must be specified either through x')\n"
    )
    pipeline = load(written(tmp_path, "started.py", text))
    session: Any = None
    with pytest.raises(
        BadPipeline, match=r"must return DataFrame\.writeStream\.\.\. without start"
    ):
        pipeline.build(session)
