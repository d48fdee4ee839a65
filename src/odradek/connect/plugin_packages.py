"""Connectors, transforms and converters of other Python packages.

A package names its classes as entry points:

    [project.entry-points.odradek_connectors]
    "com.example.WeatherSource" = "weather.connector:WeatherSource"

The name is what configurations write as `connector.class`. A transform may be a function too: see
`transforms.python_function`. Only packages that the worker's file
names in `odradek.plugins` are looked into: installing a package is not yet a reason to run its code
in a worker, and nothing from the network chooses code.
"""

from collections.abc import Collection, Iterable
from importlib.metadata import Distribution, EntryPoint, distributions
from inspect import isfunction
from typing import Any, Final, cast

from odradek.config.spelling import did_you_mean
from odradek.connect import plugins
from odradek.connect.connectors.connector import SinkConnector, SourceConnector
from odradek.connect.errors import InvalidConfig
from odradek.connect.plugins import Plugin
from odradek.connect.transforms.python_function import transform_class
from odradek.connect.transforms.transform import Side

CONNECTORS: Final = "odradek_connectors"
TRANSFORMS: Final = "odradek_transforms"
PREDICATES: Final = "odradek_predicates"
CONVERTERS: Final = "odradek_converters"
_GROUPS: Final = (CONNECTORS, TRANSFORMS, PREDICATES, CONVERTERS)
_ALL: Final = "*"


def install(allowed: Collection[str]) -> list[str]:
    """Adds the plug-ins of these distributions; returns lines about what was added. Raises
    `InvalidConfig` if one is not installed or cannot be imported."""
    if not allowed:
        return []
    found = {
        _plain(distribution.name): distribution
        for distribution in distributions()
        if _entry_points(distribution)
    }
    notes = []
    for name in found if _ALL in allowed else map(_plain, allowed):
        if name not in found:
            near = did_you_mean(name, found)
            raise InvalidConfig(
                f"odradek.plugins={name}: no package of this name with plug-ins is installed{near}"
            )
        added = [_add(found[name], point) for point in _entry_points(found[name])]
        notes.append(f"{name} {found[name].version}: {', '.join(added)}")
    return notes


def _entry_points(distribution: Distribution) -> list[EntryPoint]:
    return [point for point in distribution.entry_points if point.group in _GROUPS]


def _add(distribution: Distribution, point: EntryPoint) -> str:
    try:
        loaded = point.load()
    except Exception as error:
        raise InvalidConfig(
            f"{point.value} of package {distribution.name} cannot be imported: {error}"
        ) from error
    name = point.name
    side = next((one for one in Side if name.endswith(f"${one.value}")), None)
    plugin = Plugin(name, point.module, point.attr, side, distribution.version)
    if point.group == TRANSFORMS and isfunction(loaded):
        plugin = FunctionPlugin(name, point.module, point.attr, side, distribution.version)
    for table in _tables_for(point.group, loaded, name):
        cast("dict[str, Plugin]", table)[name] = plugin
    return name


class FunctionPlugin(Plugin):
    """A transform that is a function."""

    def load(self) -> Any:
        return transform_class(self.name, super().load())


def _tables_for(group: str, loaded: Any, name: str) -> Iterable[Any]:
    if group == TRANSFORMS:
        return (plugins.TRANSFORMS,)
    if group == PREDICATES:
        return (plugins.PREDICATES,)
    if group == CONVERTERS:
        return (plugins.CONVERTERS,)
    if isinstance(loaded, type) and issubclass(loaded, SourceConnector):
        return plugins.SOURCES, plugins.CONNECTORS
    if isinstance(loaded, type) and issubclass(loaded, SinkConnector):
        return plugins.SINKS, plugins.CONNECTORS
    raise InvalidConfig(f"{name} is neither a SourceConnector nor a SinkConnector")


def _plain(name: str) -> str:
    """Returns the name of a distribution as `pip` compares it."""
    return name.lower().replace("_", "-").replace(".", "-")
