"""What is checked of a declared pipeline before Java starts: its functions, options and topics."""

import ast
import os
import re
import sys
from importlib.util import find_spec
from typing import Final

from odradek.client.errors import ClientError
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import KafkaError
from odradek.spark.data_loss import DataMissing
from odradek.spark.option_names import BadOption
from odradek.spark.pipelines.spec import BadPipeline, PipelineSpec
from odradek.spark.preflight import (
    BadPath,
    check_directory,
    check_sink,
    check_source,
    closing_clients,
)
from odradek.spark.spark_settings import check_common_spelling

_OWN_FORMAT: Final = "odradek"
_SERVERS: Final = "kafka.bootstrap.servers"


def check_files(spec: PipelineSpec, directory: str) -> None:
    """Checks that the Python functions of all steps exist, without running their modules: a module
    may need a session. Also checks that the sink's own checkpoint can be written."""
    for name, path in spec.sink.options.items():
        if name.lower() == "checkpointlocation":
            try:
                check_directory(name, path, must_exist=False)
            except BadPath as error:
                raise BadPipeline(f"[sink]: {error}") from None
    for step in spec.transforms:
        if step.python is not None:
            check_function(step.python, directory)


def check_function(reference: str, directory: str) -> None:
    """Checks `module:function` or `file.py:function`, relative to the pipeline's file."""
    module, _, name = reference.partition(":")
    path = _source_of(module, reference, directory)
    if path is None:
        return
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read(), path)
    except SyntaxError as error:
        raise BadPipeline(f"{module}, line {error.lineno}: {error.msg}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadPipeline(f"{module} cannot be read: {error}") from None
    names = _names_in(tree)
    if name not in names and "*" not in names:
        raise BadPipeline(f"{module} has no function {name}{did_you_mean(name, names)}")


def _source_of(module: str, reference: str, directory: str) -> str | None:
    """Returns the file of a module, or None if it has no Python source."""
    if module.endswith(".py"):
        path = os.path.join(directory, module)
        if not os.path.exists(path):
            raise BadPipeline(f"there is no file {path}")
        return path
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        spec = find_spec(module)
    except (ImportError, ValueError) as error:
        raise BadPipeline(f"{reference}: {error}") from None
    if spec is None:
        raise BadPipeline(f"{reference}: there is no module {module}")
    return spec.origin if spec.origin is not None and spec.origin.endswith(".py") else None


def _names_in(tree: ast.Module) -> list[str]:
    """Returns the names that a module may define, at any depth but inside of functions: a function
    may be defined under an `if`."""
    names = []
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.append(node.name)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.alias):
            names.append(node.asname or node.name.partition(".")[0])
        pending += ast.iter_child_nodes(node)
    return names


def _check_loop(spec: PipelineSpec) -> None:
    """Refuses a pipeline that reads what it writes: it would go on without end, and fill disks."""
    sink = {name.lower(): value for name, value in spec.sink.options.items()}
    target, servers = sink.get("topic"), sink.get(_SERVERS)
    if spec.sink.format != _OWN_FORMAT or not target:
        return
    for source in spec.sources:
        options = {name.lower(): value for name, value in source.options.items()}
        if source.format != _OWN_FORMAT or options.get(_SERVERS) != servers:
            continue
        names = [name.strip() for name in options.get("subscribe", "").split(",")]
        pattern = options.get("subscribepattern", "")
        try:
            is_read = target in names or bool(pattern and re.fullmatch(pattern, target))
        except re.error:
            return  # The check of the source says so.
        if is_read:
            raise BadPipeline(
                f"[sink]: topic {target} is also a source, so this would never end; write to"
                " another"
            )


def check_topics(spec: PipelineSpec, *, has_checkpoint: bool) -> None:
    """Checks the options of sources and sink, that brokers can be reached, and their topics."""
    try:
        check_common_spelling(spec.spark)
    except BadOption as error:
        raise BadPipeline(f"[spark]: {error}") from None
    _check_loop(spec)
    with closing_clients():
        for source in spec.sources:
            if source.format == _OWN_FORMAT:
                where = "[source]" if len(spec.sources) == 1 else f"[source.{source.name}]"
                try:
                    check_source(source.options, is_streaming=True, has_checkpoint=has_checkpoint)
                except (BadOption, ClientError, DataMissing, KafkaError) as error:
                    raise BadPipeline(f"{where}: {error}") from None
        if spec.sink.format == _OWN_FORMAT:
            try:
                check_sink(spec.sink.options)
            except (BadOption, ClientError, KafkaError) as error:
                raise BadPipeline(f"[sink]: {error}") from None
