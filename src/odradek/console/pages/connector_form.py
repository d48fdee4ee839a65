"""The form of a connector, made of what its plug-in says of its settings.

The worker's own validation (`PUT /connector-plugins/PLUGIN/config/validate`) names the settings in
groups, with documentation, defaults, recommended values and errors. What the form has no field for,
such as the settings of a transform, is written as lines name=value.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response

from odradek.console.asking import BadForm, Form, PageRequest, Pages
from odradek.console.connect_worker import (
    CONNECT,
    WorkerRefused,
    ask_worker,
    connector_path,
    is_ours,
    require_right,
    see,
)
from odradek.console.pages.topics import settings_of
from odradek.console.records.masks import HIDDEN, Masks
from odradek.web.endpoints import Endpoint

_PREFIX: Final = "s."
_OWN: Final = ("name", "connector.class")
_PREVIEWED: Final = 10
_PREVIEW_S: Final = 25.0
_FIRST_GROUP: Final = "Settings of the plug-in"


@dataclass(frozen=True, slots=True)
class Input:
    """A setting as the form shows it. `choices` is empty for free text."""

    name: str
    label: str
    hint: str
    value: str
    default: str
    choices: tuple[str, ...]
    is_required: bool
    is_secret: bool
    is_kept: bool
    """Whether a secret is there already, which the form does not show."""
    errors: tuple[str, ...]


@dataclass(slots=True)
class Group:
    name: str
    inputs: list[Input] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether the group is shown at once: what must be filled in, or is wrong, or is set."""
        return any(one.is_required or one.errors or one.value or one.is_kept for one in self.inputs)


class ConnectorFormPages(Pages):
    shown_service = CONNECT

    def endpoints(self) -> list[Endpoint]:
        return [
            self.shows("/new-connector", self._new, "The form for a connector."),
            self.changes("/new-connector", self._create, "Checks, previews or makes a connector."),
            self.shows("/connectors/{connector}/settings", self._edit, "The form to change it."),
            self.changes("/connectors/{connector}/settings", self._save, "Changes a connector."),
        ]

    # A new one

    async def _new(self, asked: PageRequest) -> Response:
        query = asked.query
        if not query.text("class"):
            return await self._choose(asked)
        try:
            name = query.needed("name", "The name")
            config = {"name": name, "connector.class": query.text("class")}
            groups = await _described(asked, config, is_checked=False)
        except (BadForm, WorkerRefused) as error:
            return await self._choose(asked, str(error))
        return await self._page(asked, config, groups)

    async def _choose(self, asked: PageRequest, problem: str = "") -> Response:
        plugins = await see(asked, "/connector-plugins")
        kinds = {str(plugin["class"]): str(plugin.get("type", "")) for plugin in plugins}
        shown = {name: f"{name.rpartition('.')[2]} ({kind})" for name, kind in kinds.items()}
        return asked.page(
            "connector_new.html", "connectors", 400 if problem else 200, problem=problem,
            plugins=dict(sorted(shown.items(), key=lambda one: one[1].lower())),
            fields=dict(asked.query.fields),
        )  # fmt: skip

    async def _create(self, asked: PageRequest) -> Response:
        await require_right(asked)
        form = asked.form
        config = {"name": form.needed("name", "The name")}
        config["connector.class"] = form.needed("class", "The plug-in")
        return await self._obeyed(asked, config, {})

    # One that is there

    async def _edit(self, asked: PageRequest) -> Response:
        config = await self._known(asked)
        groups = await _described(asked, config, is_checked=False, kept=config)
        return await self._page(asked, config, groups, config)

    async def _save(self, asked: PageRequest) -> Response:
        await require_right(asked)
        known = await self._known(asked)
        return await self._obeyed(asked, {one: known.get(one, "") for one in _OWN}, known)

    async def _known(self, asked: PageRequest) -> dict[str, str]:
        name = str(asked.path["connector"])
        found = await see(asked, connector_path(name, "config"))
        return {**{str(key): str(value) for key, value in found.items()}, "name": name}

    # Both

    async def _obeyed(
        self, asked: PageRequest, own: dict[str, str], known: Mapping[str, str]
    ) -> Response:
        """Does what the button says: checks, previews, or makes and changes the connector."""
        config, groups = own, list[Group]()
        try:
            config = {**_filled(asked.form, known), **own}
            groups = await _described(asked, config, is_checked=True, kept=known)
            count = sum(len(one.errors) for group in groups for one in group.inputs)
            if count:
                problem = "The plug-in refuses it: the fields say why."
                return await self._page(asked, config, groups, known, problem=problem)
            action = asked.form.text("action")
            if action == "check":
                good = "The plug-in accepts it."
                return await self._page(asked, config, groups, known, good=good)
            if action == "preview":
                return await self._preview(asked, config, groups, known)
            name = own["name"]
            if known:
                await ask_worker(asked, "PUT", connector_path(name, "config"), config)
            else:
                await ask_worker(asked, "POST", "/connectors", {"name": name, "config": config})
        except (BadForm, WorkerRefused) as error:
            return await self._page(asked, config, groups, known, problem=str(error))
        words = f"{name} was changed." if known else f"{name} was made."
        return asked.go(asked.url("connectors", name), "good", words)

    async def _preview(
        self,
        asked: PageRequest,
        config: dict[str, str],
        groups: list[Group],
        known: Mapping[str, str],
    ) -> Response:
        if asked.cluster.has_masks and _renames(config):
            raise BadForm(
                "The records are not shown: fields are masked in this console (odradek.masks), and"
                " a sink or transforms may show them under other names"
            )
        path = f"/connector-plugins/{_plugin(config)}/config/preview?count={_PREVIEWED}"
        records = await ask_worker(asked, "PUT", path, config, timeout_s=_PREVIEW_S)
        shown = [
            masked(record, asked.cluster.masks(str(record.get("topic", "")))) for record in records
        ]
        return await self._page(asked, config, groups, known, records=shown)

    async def _page(
        self,
        asked: PageRequest,
        config: Mapping[str, str],
        groups: list[Group],
        known: Mapping[str, str] | None = None,
        **shown: Any,
    ) -> Response:
        has_field = {one.name for group in groups for one in group.inputs}
        others = {
            name: value
            for name, value in config.items()
            if name not in has_field and name not in _OWN
        }
        further = "\n".join(f"{name}={value}" for name, value in sorted(others.items()))
        context = {"problem": "", "good": "", "records": None, **shown}
        return asked.page(
            "connector_form.html", "connectors", 400 if context["problem"] else 200,
            name=config["name"], plugin=config["connector.class"], groups=groups,
            is_new=not known, offers_preview=await is_ours(asked), tab="settings",
            further=asked.form.raw("further") if asked.request.method == "POST" else further,
            **context,
        )  # fmt: skip


def _renames(config: Mapping[str, str]) -> bool:
    """Returns whether a preview may show fields that a mask hides, under other names: transforms
    change the names of topics and fields, and a sink reads what is in the cluster."""
    return any(config.get(name, "").strip() for name in ("transforms", "topics", "topics.regex"))


def masked(record: dict[str, Any], masks: Masks) -> dict[str, Any]:
    """Returns a record of a preview as its user may see it: a value that cannot be taken apart is
    hidden as a whole, as on the pages of the topic."""
    shown = dict(record)
    for part in ("key", "value"):
        if not masks.concern(part) or shown.get(part) is None:
            continue
        try:
            given = shown[part]
            data = json.loads(given) if isinstance(given, str) else given
        except ValueError:
            data = None
        is_apart = isinstance(data, dict | list)
        shown[part] = masks.apply(part, data) if is_apart else HIDDEN
    if masks and "error" in shown:
        shown["error"] = HIDDEN  # It may quote a value.
    headers = shown.get("headers")
    if isinstance(headers, dict):
        shown["headers"] = {
            name: HIDDEN if masks.hides_header(name) else value for name, value in headers.items()
        }
    return shown


def _plugin(config: Mapping[str, str]) -> str:
    return quote(config["connector.class"].rpartition(".")[2], safe="")


def _filled(form: Form, known: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that the form gives; empty fields are left to the plug-in's default, and
    a secret that was not written again stays what it is."""
    config = settings_of(form.raw("further"))
    kept = set(form.many("kept"))
    for name, value in form.fields:
        setting = name.removeprefix(_PREFIX)
        if setting == name:
            continue
        if value.strip():
            config[setting] = value.strip()
        elif setting in kept and setting in known:
            config[setting] = known[setting]
    return config


async def _described(
    asked: PageRequest,
    config: Mapping[str, str],
    *,
    is_checked: bool,
    kept: Mapping[str, str] | None = None,
) -> list[Group]:
    """Returns the settings of the plug-in in its groups, with the errors if they were asked for."""
    await require_right(asked)
    path = f"/connector-plugins/{_plugin(config)}/config/validate"
    answer = await ask_worker(asked, "PUT", path, dict(config))
    groups: dict[str, Group] = {}
    for one in sorted(answer.get("configs", ()), key=_order):
        definition, value = one["definition"], one["value"]
        if definition["name"] in _OWN or not value.get("visible", True):
            continue
        group = str(definition.get("group") or _FIRST_GROUP)
        errors = tuple(map(str, value.get("errors", ()))) if is_checked else ()
        groups.setdefault(group, Group(group)).inputs.append(
            _input(definition, value, config, kept or {}, errors)
        )
    # The plug-in's own settings first, then those that all connectors have.
    return sorted(groups.values(), key=lambda group: group.name != _FIRST_GROUP)


def _order(one: Mapping[str, Any]) -> tuple[bool, int]:
    definition = one["definition"]
    return not definition.get("required"), int(definition.get("order_in_group") or 0)


def _input(
    definition: Mapping[str, Any],
    value: Mapping[str, Any],
    config: Mapping[str, str],
    kept: Mapping[str, str],
    errors: tuple[str, ...],
) -> Input:
    name = str(definition["name"])
    is_secret = definition.get("type") == "PASSWORD"
    choices = tuple(
        str(recommended_value) for recommended_value in value.get("recommended_values") or ()
    )
    if definition.get("type") == "BOOLEAN":
        choices = ("true", "false")
    elif definition.get("type") == "LIST" or len(choices) > 200:
        choices = ()  # Several of them may be given, with commas.
    given = config.get(name, "")
    if choices and given and given not in choices:
        choices = (given, *choices)
    return Input(
        name,
        str(definition.get("display_name") or name),
        str(definition.get("documentation") or ""),
        "" if is_secret else given,
        str(definition.get("default_value") or ""),
        choices,
        bool(definition.get("required")),
        is_secret,
        is_secret and bool(kept.get(name)),
        errors,
    )
