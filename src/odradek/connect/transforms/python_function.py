"""A function of Python as a transform.

A package names it as an entry point, and the worker's file allows the package:

    [project.entry-points.odradek_transforms]
    "com.example.Clean$Value" = "shop.cleaning:clean"

With `$Value` or `$Key` after its name, the function gets a value or key and returns the new one.
If there is a schema, what it returns must fit it. Without, it gets the whole record, and returns a
record, or None to drop it. What it raises makes the record a failed record.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from odradek.connect.data import values
from odradek.connect.errors import ConnectError, DataError
from odradek.connect.records import Record
from odradek.connect.settings import PluginSettings
from odradek.connect.transforms.transform import R, Side


class FunctionSettings(PluginSettings):
    pass


class PythonFunction:
    settings_class: ClassVar = FunctionSettings

    def __init__(self, name: str, function: Callable[[Any], Any], side: Side | None) -> None:
        self._name = name
        self._function = function
        self._side = side

    def apply(self, record: R) -> R | None:
        if self._side is None:
            found = self._called(record)
            if found is not None and not isinstance(found, Record):
                raise DataError(
                    f"{self._name} returns {type(found).__name__}, and a record is needed"
                )
            return found  # type: ignore[return-value]  # a record of the class that it got
        value = self._side.content(record)
        if value is None:
            return record
        schema = self._side.schema(record)
        changed = self._called(value)
        if schema is not None:
            values.check(schema, changed, f"what {self._name} returns")
        return self._side.replaced(record, schema, changed)

    def _called(self, given: Any) -> Any:
        try:
            return self._function(given)
        except ConnectError:
            raise
        except Exception as error:
            raise DataError(f"{self._name} failed: {type(error).__name__}: {error}") from error


def transform_class(name: str, function: Callable[[Any], Any]) -> Callable[..., PythonFunction]:
    """Returns what plug-ins call to make a transform of the function."""

    class _Made(PythonFunction):
        def __init__(self, settings: FunctionSettings, side: Side | None = None) -> None:
            super().__init__(name, function, side)

    return _Made
