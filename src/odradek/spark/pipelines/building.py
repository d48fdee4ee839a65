"""Builds the query of a declared pipeline from SQL views, Python functions and a writer."""

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StringType

from odradek.config.spelling import did_you_mean
from odradek.spark.failures import cause
from odradek.spark.pipelines.spec import (
    AVAILABLE_NOW,
    BadPipeline,
    PipelineSpec,
    SinkSpec,
    SourceSpec,
    TransformSpec,
)
from odradek.spark.updates import into_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

_NO_VIEW = re.compile(r"^\[TABLE_OR_VIEW_NOT_FOUND\] [^`]*`([^`]+)` cannot be found")
# The columns of a record that are kept beside the fields of its decoded value, and their names.
_RECORD_COLUMNS = ("key", "topic", "partition", "offset", "timestamp")


def build(session: "SparkSession", spec: PipelineSpec, directory: str) -> "DataStreamWriter":
    """Returns the query that a file declares, not started yet. `directory` is the file's
    directory."""
    frame: DataFrame | None = None
    for source in spec.sources:
        frame = _read(session, source)
        frame.createOrReplaceTempView(source.name)
    assert frame is not None
    views = [source.name for source in spec.sources]
    for step in spec.transforms:
        frame = _transformed(session, frame, step, directory, views)
        frame.createOrReplaceTempView(step.name)
        views.append(step.name)
    return _writer(frame, spec.sink)


def _read(session: "SparkSession", source: SourceSpec) -> "DataFrame":
    reader = session.readStream.format(source.format).options(**source.options)
    if source.schema and source.format != "odradek":
        reader = reader.schema(source.schema)
    frame = reader.load()
    if source.format == "odradek":
        frame = _decoded(frame, source)
    if source.watermark is not None:
        frame = frame.withWatermark(*source.watermark)
    return frame


def _decoded(frame: "DataFrame", source: SourceSpec) -> "DataFrame":
    """Decodes values as declared. Keys become text, unless values are kept as binary."""
    if source.value == "binary":
        return frame
    frame = frame.withColumn("key", f.col("key").cast("string"))
    if source.value == "string":
        return frame.withColumn("value", f.col("value").cast("string"))
    assert source.schema is not None
    rows = frame.withColumn("value", f.from_json(f.col("value").cast("string"), source.schema))
    fields = [field.name for field in rows.schema["value"].dataType.fields]
    # A field of the value hides the record's own column of the same name.
    names = [name for name in _RECORD_COLUMNS if name not in fields]
    return rows.select(*names, "value.*")


def _transformed(
    session: "SparkSession",
    frame: "DataFrame",
    step: TransformSpec,
    directory: str,
    views: list[str],
) -> "DataFrame":
    if step.sql is not None:
        try:
            return session.sql(step.sql)
        except PySparkException as error:
            raise BadPipeline(_sql_refused(step, error, views)) from error
    assert step.python is not None
    function = function_of(step.python, directory)
    with user_errors(os.path.join(directory, step.python.partition(":")[0])):
        result = function(frame)
    if not hasattr(result, "writeStream"):
        raise BadPipeline(f"{step.python} returned {type(result).__name__}, and not a DataFrame")
    return result


def _sql_refused(step: TransformSpec, error: PySparkException, views: list[str]) -> str:
    """Returns which step's SQL Spark refuses, why, and which views there are."""
    reason = f"the SQL of {step.name}: {cause(error).rstrip('.')}"
    missing = _NO_VIEW.search(str(error))
    if missing is None:
        return reason
    near = did_you_mean(missing[1], views)
    return f"the SQL of {step.name}: there is no view {missing[1]}" + (
        near or f"; there are {', '.join(views)}"
    )


def function_of(reference: str, directory: str) -> "Callable[[DataFrame], DataFrame]":
    """Returns the function of `module:function` or `file.py:function`, relative to the pipeline's
    file."""
    where, _, name = reference.partition(":")
    if where.endswith(".py"):
        module = import_file(os.path.join(directory, where))
    else:
        if directory not in sys.path:
            sys.path.insert(0, directory)
        with user_errors(where):
            module = import_module(where)
    function = getattr(module, name, None)
    if not callable(function):
        raise BadPipeline(f"{where} has no function {name}{did_you_mean(name, dir(module))}")
    return function  # type: ignore[no-any-return] # a user's function: what it returns is checked


@contextmanager
def user_errors(file: str) -> Iterator[None]:
    """Surrounds code of the user. An error in it becomes one line with its place, unless it is an
    error of Spark's, which `failures.cause` explains."""
    try:
        yield
    except (BadPipeline, PySparkException, Py4JError):
        raise
    except SyntaxError as error:
        name = os.path.basename(error.filename or file)
        raise BadPipeline(f"{name}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        place = _place(error, file)
        raise BadPipeline(f"{place}: {type(error).__name__}: {error}") from error


def _place(error: Exception, file: str) -> str:
    """Returns the last line of the user's files that an error went through."""
    directory = os.path.dirname(file)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if os.path.dirname(frame.filename) == directory:
            return f"{os.path.basename(frame.filename)}, line {frame.lineno}"
    return os.path.basename(file)


def import_file(path: str) -> ModuleType:
    """Imports a file as a module. Functions that it defines are pickled into the query for the
    workers."""
    name = f"odradek_pipeline_{os.path.basename(path).removesuffix('.py')}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise BadPipeline(f"there is no file {path}")
    module = module_from_spec(spec)
    # The file may import modules from its own directory.
    directory = os.path.dirname(path)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    # Registered in sys.modules, because dataclasses look the module up; but workers cannot import
    # it, so cloudpickle is told to pickle it by value.
    sys.modules[name] = module
    with user_errors(path):
        spec.loader.exec_module(module)
    register_pickle_by_value(module)
    return module


def _writer(frame: "DataFrame", sink: SinkSpec) -> "DataStreamWriter":
    if sink.format == "odradek":
        frame = _encoded(frame, sink)
    writer = frame.writeStream.outputMode(sink.mode)
    if sink.format == "odradek" and sink.mode == "update":
        writer = writer.foreachBatch(into_topic(**sink.options))
    else:
        writer = writer.format(sink.format).options(**sink.options)
    if sink.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True)
    if sink.trigger is not None:
        return writer.trigger(processingTime=sink.trigger)
    return writer


def _encoded(frame: "DataFrame", sink: SinkSpec) -> "DataFrame":
    """Returns the columns that the sink writes: the key, and the value as JSON or as one column."""
    names = frame.columns
    if sink.key is not None and sink.key not in names:
        raise BadPipeline(
            f"[sink]: key = {sink.key!r} is not a column; there are {', '.join(names)}"
        )
    if sink.value == "json":
        # All columns become fields, whatever their names. SQL can leave out the others.
        value = f.to_json(f.struct(*[f.col(f"`{name}`") for name in names]))
    elif sink.value in names:
        value = f.col(f"`{sink.value}`")
    else:
        raise BadPipeline(
            f"[sink]: value = {sink.value!r} is neither json nor a column;"
            f" there are {', '.join(names)}"
        )
    columns = [value.alias("value")]
    if sink.key is not None:
        columns.append(_as_bytes(frame, sink.key).alias("key"))
    elif "key" in names:
        columns.append(_as_bytes(frame, "key").alias("key"))
    # A column `topic` of the rows is used only if the file names no topic.
    if "topic" in names and "topic" not in sink.options:
        columns.append(f.col("topic"))
    return frame.select(*columns)


def _as_bytes(frame: "DataFrame", name: str) -> "f.Column":
    column = f.col(f"`{name}`")
    kind = frame.schema[name].dataType
    return column if isinstance(kind, BinaryType | StringType) else column.cast("string")
