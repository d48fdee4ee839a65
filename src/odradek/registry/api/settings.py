"""Endpoints below `/config` and `/mode`."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.config.spelling import did_you_mean
from odradek.registry import errors
from odradek.registry.api.bodies import (
    Config,
    ConfigUpdateRequest,
    Mode,
    ModeUpdateRequest,
    config_answer,
)
from odradek.registry.api.surface import ACCEPTS, PRODUCES, TO_GLOBAL, change, page
from odradek.registry.decisions import MODES, DeleteConfig, DeleteMode, SetConfig, SetMode
from odradek.registry.names import GLOBAL_SUBJECT, normal
from odradek.registry.records import Json
from odradek.registry.registry import Registry
from odradek.registry.rules import check_metadata, check_rule_set
from odradek.schemas.compatibility import Level
from odradek.web.bodies import decode_json, read_body
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.problems import Problem, negotiated_response

_FORCE = Parameter("force", bool, False, "Change to IMPORT although there are schemas.")
_RECURSIVE = Parameter("recursive", bool, False, "Also of all subjects of the context.")
_MAX_LENGTH = 10_000


class SettingEndpoints:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._state = registry.state
        self._config_of = self._get("/config", self._config, "the configuration", Config)
        self._mode_of = self._get("/mode", self._mode, "the mode", Mode)
        self._set_mode_of = self._change(
            "PUT",
            "/mode",
            self._set_mode,
            "Sets the mode",
            answer=Mode,
            body=ModeUpdateRequest,
            parameters=(_FORCE,),
        )
        self._delete_mode_of = self._change(
            "DELETE",
            "/mode",
            self._delete_mode,
            "Removes the mode",
            answer=Mode,
            parameters=(_RECURSIVE,),
        )
        self._set_config_of = self._change(
            "PUT", "/config", self._set_config, "Sets the configuration", answer=Config,
            body=ConfigUpdateRequest,
        )  # fmt: skip
        self._delete_config_of = self._change(
            "DELETE", "/config", self._delete_config, "Removes the configuration", answer=Config
        )

    def endpoints(self) -> list[Endpoint]:
        return [
            endpoint
            for pair in (
                self._config_of, self._mode_of, self._set_config_of, self._delete_config_of,
                self._set_mode_of, self._delete_mode_of,
            )
            for endpoint in pair
        ]  # fmt: skip

    @staticmethod
    def _get(path: str, handler: Any, what: str, answer: Any) -> tuple[Endpoint, Endpoint]:
        return tuple(  # type: ignore[return-value]  # two of them
            Endpoint(
                "GET", f"{path}{rest}", handler, f"Returns {what} of {whose}.", (TO_GLOBAL,),
                produces=PRODUCES, responses=page(), answer=answer, ignores_unknown=True,
            )
            for rest, whose in (("", "the registry"), ("/{subject}", "a subject or context"))
        )  # fmt: skip

    @staticmethod
    def _change(
        method: str, path: str, handler: Any, what: str, *, answer: Any, body: Any = None,
        parameters: tuple[Parameter, ...] = (),
    ) -> tuple[Endpoint, Endpoint]:  # fmt: skip
        return tuple(  # type: ignore[return-value]  # two of them
            Endpoint(
                method, f"{path}{rest}", handler, f"{what} of {whose}.", parameters, changes=True,
                body=body, media_types=ACCEPTS, produces=PRODUCES, responses=change(),
                answer=answer, ignores_unknown=True,
            )
            for rest, whose in (("", "the registry"), ("/{subject}", "a subject or context"))
        )  # fmt: skip

    def _subject(self, request: Request) -> str | None:
        """Returns the subject or context of the path; None is the whole registry."""
        text = request.path_params.get("subject")
        if text is None:
            return None
        name = str(text)
        if len(name) > _MAX_LENGTH or any(ord(character) < 32 for character in name):
            raise errors.invalid_subject(name)
        return normal(name) or None

    # Configuration

    async def _config(self, request: Request) -> Response:
        query = self._config_of[0].query(request)
        subject = self._subject(request)
        own = self._state.config(subject)
        if subject is None:
            found: Json = self._state.config_in_scope(None)
        elif own is None and subject == GLOBAL_SUBJECT:
            found = self._state.config_in_scope(subject)
        elif own is not None:
            found = own
            if "compatibilityLevel" not in own:
                level = self._state.config_in_scope(subject)["compatibilityLevel"]
                found = {"compatibilityLevel": level} | own
        elif query["defaultToGlobal"]:
            found = self._state.config_in_scope(subject)
        else:
            raise errors.no_config(subject)
        return negotiated_response(request, config_answer(found))

    async def _set_config(self, request: Request) -> Response:
        subject = self._subject(request)
        body = await read_body(request, ConfigUpdateRequest)
        update: Json = msgspec.to_builtins(body)
        if not update:
            _require_no_members(await request.body())
        if "compatibility" in update:
            update["compatibilityLevel"] = update.pop("compatibility")
        if update.get("compatibilityLevel") is not None:
            level = str(update["compatibilityLevel"]).upper()
            if level not in Level.__members__:
                raise errors.invalid_level()
            update["compatibilityLevel"] = level
        check_metadata(update.get("defaultMetadata"))
        check_metadata(update.get("overrideMetadata"))
        check_rule_set(update.get("defaultRuleSet"))
        check_rule_set(update.get("overrideRuleSet"))
        return await self._registry.change(
            request,
            SetConfig(subject, update),
            shown=lambda config: config_answer(config, as_request=True),
        )

    async def _delete_config(self, request: Request) -> Response:
        default = self._state.config_in_scope(None)
        return await self._registry.change(
            request,
            DeleteConfig(self._subject(request)),
            shown=lambda config: config_answer(default if config is None else config),
        )

    # Mode

    async def _mode(self, request: Request) -> Response:
        query = self._mode_of[0].query(request)
        subject = self._subject(request)
        mode = self._state.mode(subject)
        if query["defaultToGlobal"] or (mode is None and subject in {None, GLOBAL_SUBJECT}):
            mode = self._state.mode_in_scope(subject)
        if mode is None:
            assert subject is not None
            raise errors.no_mode(subject)
        return negotiated_response(request, Mode(mode))

    async def _set_mode(self, request: Request) -> Response:
        query = self._set_mode_of[0].query(request)
        subject = self._subject(request)
        body = await read_body(request, ModeUpdateRequest)
        mode = None if body.mode is None else body.mode.upper()
        if mode is not None and mode not in MODES:
            raise errors.invalid_mode()
        return await self._registry.change(
            request, SetMode(subject, mode, query["force"]), shown=Mode
        )

    async def _delete_mode(self, request: Request) -> Response:
        query = self._delete_mode_of[0].query(request)
        command = DeleteMode(self._subject(request), query["recursive"])
        return await self._registry.change(request, command, shown=Mode)


def _require_no_members(body: bytes) -> None:
    """Refuses a configuration of which no member is known. Others are skipped, because newer
    clients send more, but then nothing would be set, and a misspelt name is the likely reason."""
    known = [field.encode_name for field in msgspec.structs.fields(ConfigUpdateRequest)]
    for name in decode_json(body, dict[str, Any]):
        raise Problem(422, f"there is no {name} to set{did_you_mean(name, known)}")
