"""Loads the operator's functions (`user_functions`) from a directory into the tables of functions.

The files are run when a server or a test of statements starts; no statement can add code. `load`
refuses a file that raises an error, a function with a wrong signature and a name that exists
already, with file and line.

If a function raises an error for a row, its result is null, and the processing log has a line. An
aggregate keeps the state that it had before the row.
"""

import importlib.util
import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from odradek.sql.errors import SqlError
from odradek.sql.functions.aggregates import AggregateFunction, Aggregator
from odradek.sql.functions.annotations import BadAnnotation, Conversion, signature_of
from odradek.sql.functions.declaring import (
    Bindings,
    Scalar,
    Signature,
    Variant,
    cost,
    resolved,
    signature,
)
from odradek.sql.functions.results import checked
from odradek.sql.functions.table import AGGREGATES, NAMES, SCALARS
from odradek.sql.functions.tabular import TABULAR, Tabular
from odradek.sql.user_functions import ATTRIBUTE, Declaration
from odradek.streams.plan.types import SqlType

_log = logging.getLogger("odradek.sql.processing")
_PACKAGE: Final = "odradek_sql_functions"
_METHODS: Final = ("initial", "add", "merge")
_SUBJECT: Final = "User functions"


class BadFunctions(Exception):
    """Functions cannot be loaded. The message has the file, the line and the reason."""


def load(directory: str) -> list[str]:
    """Loads all functions of a directory and returns their names. Raises `BadFunctions` if one is
    wrong; then none of them is in the tables."""
    folder = Path(directory)
    if not folder.is_dir():
        raise BadFunctions(f"{directory} is not a directory")
    found: dict[str, tuple[str, Any]] = {}
    for path in sorted(folder.glob("*.py")):
        if path.name.startswith("_"):
            continue
        for given in _declared_in(_run(path)):
            place = f"{path}:{_line_of(given)}"
            try:
                function = _function(given)
            except (ValueError, SqlError) as error:
                raise BadFunctions(f"{place}: {error}") from None
            name = function.name
            if name in NAMES:
                raise BadFunctions(f"{place}: there is already a function {name}")
            if name in found:
                raise BadFunctions(f"{place}: {name} is also declared at {found[name][0]}")
            found[name] = (place, function)
    for name, (place, function) in found.items():
        _TABLES[type(function)][name] = function
        NAMES.append(name)
        PLACES[name] = place
    DIRECTORIES.append(directory)
    return list(found)


def load_once(directories: Iterable[str]) -> None:
    """Loads those of the directories that this process has not loaded yet."""
    for directory in directories:
        if directory not in DIRECTORIES:
            load(directory)


def unload(names: Sequence[str]) -> None:
    """Removes functions from the tables, for tests that load functions of their own."""
    for name in names:
        for table in _TABLES.values():
            table.pop(name, None)
        NAMES.remove(name)
        del PLACES[name]
    DIRECTORIES.clear()


DIRECTORIES: Final[list[str]] = []
"""The directories that this process has loaded."""
PLACES: Final[dict[str, str]] = {}
"""The file and line of each loaded function, by its name."""
_TABLES: Final[dict[type, dict[str, Any]]] = {
    Scalar: SCALARS, AggregateFunction: AGGREGATES, Tabular: TABULAR,
}  # fmt: skip


def _run(path: Path) -> ModuleType:
    name = f"{_PACKAGE}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise BadFunctions(f"{path}:{error.lineno}: {error.msg}") from None
    except Exception as error:  # noqa: BLE001 - a file of the operator may raise anything
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        line = lines[-1] if lines else 1
        raise BadFunctions(f"{path}:{line}: {type(error).__name__}: {error}") from None
    return module


def _declared_in(module: ModuleType) -> Iterator[Any]:
    for given in vars(module).values():
        # A function that the file has imported is declared elsewhere.
        if hasattr(given, ATTRIBUTE) and given.__module__ == module.__name__:
            yield given


def _line_of(given: Any) -> int:
    return inspect.getsourcelines(given)[1]


def _function(given: Any) -> Any:
    declaration: Declaration = getattr(given, ATTRIBUTE)
    name = (declaration.name or given.__name__).upper()
    if not name.isidentifier():
        raise ValueError(f"{name!r} cannot be the name of a function")
    doc = " ".join((inspect.getdoc(given) or "").split())
    if declaration.kind == "AGGREGATE":
        return _aggregate(given, name, doc, declaration)
    typed, conversion = _typed(given, declaration)
    if declaration.kind == "TABLE":
        (known, *more) = typed
        if more or len(known.parameters) != 1:
            raise ValueError("a table function has one signature, with one argument")
        return Tabular(name, doc, (known,), partial(_rows, given, name, conversion, known))
    nulls = declaration.takes_nulls
    if nulls is None:
        nulls = conversion.takes_nulls
    variants = [
        Variant(known, partial(_value, given, name, conversion, known), nulls, None)
        for known in typed
    ]
    return Scalar(name, _SUBJECT, doc, variants, declaration.is_deterministic)


def _typed(given: Any, declaration: Declaration) -> tuple[list[Signature], Conversion]:
    if declaration.signatures:
        return [_read_signature(text) for text in declaration.signatures], Conversion()
    try:
        text, conversion = signature_of(given, is_table=declaration.kind == "TABLE")
    except BadAnnotation as error:
        raise ValueError(f"{error}; or write a signature: @udf('STRING -> BIGINT')") from None
    return [_read_signature(text)], conversion


def _read_signature(text: str) -> Signature:
    """Parses a signature. Its result may be any SQL type, such as `ARRAY<DECIMAL(4, 2)>`."""
    from odradek.sql.language.parser import parse  # noqa: PLC0415 - the parser knows functions
    from odradek.sql.language.statements import CreateType  # noqa: PLC0415

    parameters, arrow, result = text.rpartition("->")
    try:
        created = parse(f"CREATE TYPE t AS {result}")
        assert isinstance(created, CreateType)
        # `signature` cannot parse such a type, so it parses only the parameters.
        return replace(signature(f"{parameters} -> STRING"), text=text, result=created.kind)
    except SqlError:
        pass  # The result is a type variable, which `signature` knows and SQL does not.
    except (ValueError, KeyError, IndexError):
        arrow = ""
    try:
        if arrow:
            return signature(text)
    except (ValueError, KeyError, IndexError):
        pass
    raise ValueError(f"{text!r} is not a signature such as 'STRING, INTEGER -> STRING'")


def _result_of(known: Signature, kinds: Sequence[SqlType]) -> SqlType | None:
    """Returns the type of the result for arguments of these types, or None if they do not match the
    signature."""
    bindings: Bindings = {}
    for place, kind in enumerate(kinds):
        parameter = known.parameter(place)
        if parameter is None or cost(parameter, kind, bindings) is None:
            return None
    return resolved(known.result, bindings)


def _value(
    given: Callable[..., Any], name: str, conversion: Conversion, known: Signature, *values: Any
) -> Any:
    try:
        result = conversion.result(given(*conversion.arguments(values)))
    except Exception as error:  # noqa: BLE001 - a function of the operator may raise anything
        raise ValueError(f"{name}: {type(error).__name__}: {error}") from None
    return checked(result, known.result, name)


def _rows(
    given: Callable[..., Any], name: str, conversion: Conversion, known: Signature, *values: Any
) -> Iterator[Any]:
    if values[0] is None:
        return
    try:
        for result in given(*conversion.arguments(values)):
            yield checked(conversion.result(result), known.result, name)
    except Exception as error:  # noqa: BLE001 - as above
        _log.warning("%s returns no more rows: %s: %s", name, type(error).__name__, error)


def _aggregate(
    given: type, name: str, doc: str, declaration: Declaration
) -> AggregateFunction:  # fmt: skip
    missing = [method for method in _METHODS if not callable(getattr(given, method, None))]
    if missing:
        raise ValueError(f"an aggregate needs the methods {', '.join(missing)}")
    if not declaration.signatures:
        raise ValueError("an aggregate needs a signature: @udaf('BIGINT -> BIGINT')")
    typed = [_read_signature(text) for text in declaration.signatures]

    def bind(kinds: Sequence[SqlType], _: Sequence[Any]) -> Aggregator:
        fitting = (_result_of(known, kinds) for known in typed)
        return _bound(given(), name, next(kind for kind in fitting if kind is not None))

    return AggregateFunction(name, doc, tuple(typed), bind)


def _bound(made: Any, name: str, kind: SqlType) -> Aggregator:
    def changed(method: str, state: Any, values: tuple[Any, ...]) -> Any:
        if any(value is None for value in values):
            return state
        try:
            return getattr(made, method)(state, *values)
        except Exception as error:  # noqa: BLE001 - as above
            _log.warning("%s skips a row: %s: %s", name, type(error).__name__, error)
            return state

    def result(state: Any) -> Any:
        found = made.result(state) if hasattr(made, "result") else state
        return checked(found, kind, name)

    return Aggregator(
        made.initial, partial(changed, "add"), result, made.merge, kind,
        partial(changed, "undo") if hasattr(made, "undo") else None,
    )  # fmt: skip
