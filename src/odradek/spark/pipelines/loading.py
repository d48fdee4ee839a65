"""Loads a pipeline from a Python file or a TOML file.

A Python file has a function `pipeline(spark)` that returns what `writeStream` gives, before
`start()`: one, or a dict of several by name. It may have `NAME` and `SPARK`, a dict of settings.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek.spark.pipelines.building import build, import_file, user_errors
from odradek.spark.pipelines.checks import check_files, check_topics
from odradek.spark.pipelines.spec import BadPipeline, check_name, read_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

Writers = dict[str, "DataStreamWriter"]


def _check_nothing(_: bool) -> None:
    """A Python file decides what it reads when it runs."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A loaded pipeline: `build` returns its queries by name, not started."""

    name: str
    file: str
    spark: Mapping[str, str]
    build: "Callable[[SparkSession], Writers]"
    # Called with whether there is a checkpoint; raises `BadPipeline` if topics cannot be used.
    check: Callable[[bool], None] = _check_nothing


def load(path: str, name: str | None = None) -> Pipeline:
    """Reads FILE.py or FILE.toml; `name` overrides the name in the file."""
    file = os.path.abspath(path)
    try:
        if file.endswith(".toml"):
            return _declared(file, name)
        if file.endswith(".py"):
            return _programmed(file, name)
    except BadPipeline as error:
        raise BadPipeline(f"{path}: {error}") from None
    raise BadPipeline(f"{path} must end in .py or .toml")


def _default_name(file: str) -> str:
    return os.path.basename(file).rpartition(".")[0]


def _declared(file: str, name: str | None) -> Pipeline:
    try:
        with open(file, encoding="utf-8") as opened:
            spec = read_spec(opened.read(), name or _default_name(file))
    except OSError as error:
        raise BadPipeline(f"it cannot be read: {error.strerror} ({file})") from None
    except UnicodeDecodeError as error:
        raise BadPipeline(f"it cannot be read: {error}") from None
    pipeline_name = check_name(name or spec.name)
    check_files(spec, os.path.dirname(file))

    def build_writers(session: "SparkSession") -> Writers:
        return {pipeline_name: build(session, spec, os.path.dirname(file))}

    def check(has_checkpoint: bool) -> None:
        check_topics(spec, has_checkpoint=has_checkpoint)

    return Pipeline(pipeline_name, file, spec.spark, build_writers, check)


def _programmed(file: str, name: str | None) -> Pipeline:
    module = import_file(file)
    function = getattr(module, "pipeline", None)
    if not callable(function):
        raise BadPipeline(
            "it has no function pipeline(spark) that returns DataFrame.writeStream..., not started"
        )
    pipeline_name = check_name(name or getattr(module, "NAME", None) or _default_name(file))

    def build_writers(session: "SparkSession") -> Writers:
        try:
            with user_errors(file):
                returned = function(session)
        except Exception as error:
            if "checkpointLocation must be specified" not in str(error):
                raise
            raise BadPipeline(
                "pipeline(spark) must return DataFrame.writeStream... without start(): the pipeline"
                " starts it, with a checkpoint of its own"
            ) from None
        writers = returned if isinstance(returned, dict) else {pipeline_name: returned}
        for query, writer in writers.items():
            if not hasattr(writer, "queryName"):
                hint = " without start()" if hasattr(writer, "awaitTermination") else ""
                raise BadPipeline(
                    f"pipeline(spark) returned {type(writer).__name__} for {query}: return"
                    f" DataFrame.writeStream...{hint}"
                )
        return {check_name(query): writer for query, writer in writers.items()}

    settings = {key: str(value) for key, value in dict(getattr(module, "SPARK", {})).items()}
    return Pipeline(pipeline_name, file, settings, build_writers)
