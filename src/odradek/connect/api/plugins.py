"""What is installed, its settings, and validation: `/connector-plugins`."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek import __version__
from odradek.connect import plugins, validation
from odradek.connect.api.definitions import (
    Definition,
    Validation,
    definitions_of,
    validation_of,
)
from odradek.connect.api.surface import (
    COUNT,
    ConnectorConfig,
    Surface,
    body_of,
    nullable_texts,
    preview_count,
    texts,
)
from odradek.connect.errors import InvalidConfig
from odradek.connect.plugins import Plugin, near_connector
from odradek.connect.worker.secrets import kept
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.problems import Problem, json_response


class PluginInfo(msgspec.Struct):
    class_name: str = msgspec.field(name="class")
    type: str = ""
    version: str = __version__


_ONLY: Final = Parameter("connectorsOnly", bool, True, "false: transforms and converters too.")
_VERSION: Final = Parameter("version", str, None, "The one that is installed, or nothing.")
_NO_SUCH: Final = {404: "There is no such plug-in."}


class PluginEndpoints:
    def __init__(self, surface: Surface) -> None:
        self._surface = surface

    def endpoints(self) -> list[Endpoint]:
        one = "/connector-plugins/{plugin}"
        return [
            Endpoint("GET", "/connector-plugins", self._list, "What is installed.", (_ONLY,),
                     answer=list[PluginInfo], ignores_unknown=True),
            Endpoint("GET", f"{one}/config", self._config, "The settings of a plug-in.",
                     (_VERSION,), responses={200: "Its settings.", 400: "Another version.",
                                             **_NO_SUCH},
                     answer=list[Definition], ignores_unknown=True),
            Endpoint("PUT", f"{one}/config/validate", self._validate,
                     "Checks a configuration, field by field; makes nothing.", changes=True,
                     body=ConnectorConfig, answer=Validation, ignores_unknown=True,
                     responses={200: "What is right and wrong.",
                                400: "The class is missing, unknown, or another one."}),
            Endpoint("PUT", f"{one}/config/preview", self._preview,
                     "The next records of a configuration, without writing any.", (COUNT,),
                     changes=True, body=ConnectorConfig, answer=list[dict[str, Any]],
                     ignores_unknown=True,
                     responses={200: "The records.", 400: "The configuration is wrong.",
                                503: "The other side does not answer."}),
        ]  # fmt: skip

    async def _list(self, request: Request) -> Response:
        text = request.query_params.get(_ONLY.name)
        kinds = ["source", "sink"] if text is None or _ONLY.parse(text) else list(_tables())
        found = [
            PluginInfo(name, kind, plugin.version)
            for kind in kinds
            for name, plugin in _tables()[kind].items()
        ]
        return json_response(found)

    async def _config(self, request: Request) -> Response:
        name = str(request.path_params["plugin"])
        installed = _find(name)
        if installed is None:
            raise Problem(404, f"Unknown plugin {name}{near_connector(name) or '.'}")
        plugin, kind = installed
        version = request.query_params.get(_VERSION.name) or plugin.version
        if version.strip("[]") != plugin.version:
            raise Problem(
                400,
                f"Plugin {plugin.name} not found that matches the version range {version},"
                f" available versions: [{plugin.version}]",
            )
        if kind in {"source", "sink"}:
            converters = self._surface.operations.checker.converters
            found = [
                *validation.own_settings(plugin, {}),
                *validation.common_settings(plugin, {}, converters),
            ]
        elif plugin.name == plugins.SIMPLE_HEADERS:
            found = []
        elif kind in {"converter", "header_converter"}:
            found = [*validation.converter_settings(name)]
        else:
            found = [*validation.described(plugin.settings_class, {}, None)]
        return json_response(definitions_of(found))

    async def _preview(self, request: Request) -> Response:
        await self._surface.require_allowed(request)
        properties = texts(await body_of(request, ConnectorConfig))
        name = properties.setdefault("name", "preview")
        known = self._surface.worker.configs.connectors.get(name, {})
        given = kept(properties, known)
        report = await self._surface.operations.checker.report(given)
        validation.raise_for(report)
        resolved = self._surface.worker.secrets.resolved(given)
        count = preview_count(request)
        return json_response(await self._surface.preview.of(name, resolved, count))

    async def _validate(self, request: Request) -> Response:
        """Only for those who may make the connector: a check gives secrets of the worker to the
        host that the configuration names, and runs its query."""
        await self._surface.require_allowed(request)
        name = str(request.path_params["plugin"])
        properties: dict[str, Any] = nullable_texts(await body_of(request, ConnectorConfig))
        given = properties.get("connector.class")
        if given and not _is_same(name, given):
            raise Problem(
                400,
                f"Included connector type {given} does not match request type {name}",
            )
        report = await self._surface.operations.checker.report(properties)
        return json_response(validation_of(report))


def _tables() -> Mapping[str, Mapping[str, Plugin]]:
    simple = Plugin(plugins.SIMPLE_HEADERS, "", "")
    return {
        "source": plugins.SOURCES,
        "sink": plugins.SINKS,
        "converter": plugins.CONVERTERS,
        "header_converter": {plugins.SIMPLE_HEADERS: simple, **plugins.CONVERTERS},
        "transformation": plugins.TRANSFORMS,
        "predicate": plugins.PREDICATES,
    }


def _find(name: str) -> tuple[Plugin, str] | None:
    try:
        found = plugins.find_connector(name)
        return found, "source" if found.name in plugins.SOURCES else "sink"
    except InvalidConfig:
        pass
    for kind, table in _tables().items():
        try:
            plugin = plugins.find(table, name)
        except InvalidConfig:
            continue
        return plugin, kind
    return None


def _is_same(name: str, given: str) -> bool:
    """Returns whether two names mean one class: both may be aliases."""
    try:
        return plugins.find_connector(name).name == plugins.find_connector(given).name
    except InvalidConfig:
        return given.rpartition(".")[2] == name.rpartition(".")[2]
