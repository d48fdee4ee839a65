"""Version 3: settings of topics, of single brokers, and of all brokers together."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.client.admin.config_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
)
from odradek.config.operation import ConfigOperation
from odradek.protocol.errors import KafkaError
from odradek.rest.links import Json, Links
from odradek.rest.v3.resources import (
    CLUSTER,
    NO_CONTENT,
    NOT_FOUND,
    OK,
    SERVER,
    ResourceRequest,
    Resources,
    missing,
    require_broker,
)
from odradek.rest.v3.topics import config_text
from odradek.services.kafka_problems import BAD_REQUEST
from odradek.web.bodies import read_body
from odradek.web.endpoints import Endpoint
from odradek.web.problems import Problem, json_response

Value = str | int | float | bool | None


class SetConfig(msgspec.Struct, forbid_unknown_fields=True):
    value: Value = None


class AlterConfig(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: Value = None
    operation: Literal["SET", "DELETE"] | None = None


class AlterConfigs(msgspec.Struct, forbid_unknown_fields=True):
    data: list[AlterConfig]
    validate_only: bool | None = None


class AlterTopicConfigs(msgspec.Struct, forbid_unknown_fields=True):
    topic_name: str
    configs: list[AlterConfig] | None = None
    data: list[AlterConfig] | None = None


class AlterManyTopics(msgspec.Struct, forbid_unknown_fields=True):
    data: list[AlterTopicConfigs]
    validate_only: bool | None = None


@dataclass(frozen=True, slots=True)
class _Owner:
    """Whose settings a path is about."""

    kind: str
    path: tuple[object, ...]
    list_path: tuple[object, ...]
    names: dict[str, Any]
    content: dict[str, Any]
    resource: ConfigResource

    @property
    def named(self) -> str:
        """What a setting is called in a resource name."""
        return "broker-config" if self.kind == "Cluster" else "config"


_ALL_BROKERS: Final = ConfigResource(ConfigType.BROKER, "")


class Configs(Resources):
    def endpoints(self) -> list[Endpoint]:
        made: list[Endpoint] = []
        for base, whose in (
            (f"{CLUSTER}/topics/{{topic_name}}/configs", "a topic"),
            (f"{CLUSTER}/brokers/{{broker_id:int}}/configs", "a broker"),
            (f"{CLUSTER}/broker-configs", "all brokers"),
        ):
            made += self._of(base, whose)
        answers = {**OK, **NOT_FOUND, **SERVER}
        return [
            *made,
            Endpoint(
                "GET", f"{CLUSTER}/topics/-/configs", self._all_topics,
                "The settings of all topics.", responses=answers,
            ),
            Endpoint(
                "POST", f"{CLUSTER}/topics/-/configs:alter", self._alter_topics,
                "Changes settings of several topics.", changes=True, body=AlterManyTopics,
                responses={
                    **NO_CONTENT, 207: "Some were refused, or nothing was changed.",
                    **NOT_FOUND, **SERVER,
                },
            ),
            Endpoint(
                "GET", f"{CLUSTER}/brokers/-/configs", self._all_brokers,
                "The settings of each broker.", responses=answers,
            ),
        ]  # fmt: skip

    def _of(self, base: str, whose: str) -> list[Endpoint]:
        answers = {**OK, **NOT_FOUND, **SERVER}
        done = {**NO_CONTENT, **NOT_FOUND, **SERVER}
        named = f"{base}/{{name}}"
        return [
            Endpoint("GET", base, self._list, f"The settings of {whose}.", responses=answers),
            Endpoint("GET", named, self._get, f"A setting of {whose}.", responses=answers),
            Endpoint(
                "PUT", named, self._set, f"Changes a setting of {whose}.", changes=True,
                body=SetConfig, responses=done,
            ),
            Endpoint(
                "DELETE", named, self._reset, f"Resets a setting of {whose} to its default.",
                changes=True, responses=done,
            ),
            Endpoint(
                "POST", f"{base}:alter", self._alter, f"Changes several settings of {whose}.",
                changes=True, body=AlterConfigs,
                responses=done,
            ),
        ]  # fmt: skip

    # One resource

    async def _list(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            owner = _owner(asked)
            entries = await _entries(asked, owner)
            data = [config_json(asked.links, owner, entry) for entry in entries.values()]
            return json_response(
                asked.links.collection(f"{owner.kind}Config", owner.list_path, data)
            )

    async def _get(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            owner = _owner(asked)
            name = asked.path["name"]
            entry = (await _entries(asked, owner)).get(name)
            if entry is None:
                raise missing(f"there is no setting {name}")
            return json_response(config_json(asked.links, owner, entry))

    async def _set(self, request: Request) -> Response:
        wanted = await read_body(request, SetConfig)
        async with self.asked(request) as asked:
            change = _change(asked.path["name"], wanted.value, None)
            await _apply(asked, _owner(asked), [change])
            return Response(status_code=204)

    async def _reset(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            await _apply(asked, _owner(asked), [_change(asked.path["name"], None, "DELETE")])
            return Response(status_code=204)

    async def _alter(self, request: Request) -> Response:
        wanted = await read_body(request, AlterConfigs, missing=400)
        async with self.asked(request) as asked:
            changes = [_change(one.name, one.value, one.operation) for one in wanted.data]
            await _apply(asked, _owner(asked), changes, validate_only=bool(wanted.validate_only))
            return Response(status_code=204)

    # Several

    async def _all_topics(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            names = await asked.admin.list_topics(include_internal=True)
            owners = [_topic(name, all_topics=True) for name in names]
            return json_response(await _of_several(asked, "Topic", owners))

    async def _all_brokers(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            brokers = (await asked.admin.describe_cluster()).brokers
            owners = [_broker(broker.id, all_brokers=True) for broker in brokers]
            return json_response(await _of_several(asked, "Broker", owners))

    async def _alter_topics(self, request: Request) -> Response:
        wanted = await read_body(request, AlterManyTopics, missing=400)
        async with self.asked(request) as asked:
            changes: dict[ConfigResource, list[ConfigChange]] = {}
            for one in wanted.data:
                resource = ConfigResource(ConfigType.TOPIC, one.topic_name)
                changes.setdefault(resource, []).extend(
                    _change(config.name, config.value, config.operation)
                    for config in (one.configs or one.data or ())
                )
            if not changes:
                return Response(status_code=204)
            entries = await asked.admin.describe_configs(list(changes))
            for resource, wished in changes.items():
                known = entries[resource]
                # The broker says what is wrong with a topic that cannot be described.
                if not isinstance(known, KafkaError):
                    _require_known(wished, known)
            answers = await asked.admin.incremental_alter_configs(
                changes, validate_only=bool(wanted.validate_only)
            )
            failed = [
                {"topic_name": resource.name, "error_code": _code(error), "message": error.message}
                for resource, error in answers.items()
                if error is not None
            ]
            if not failed:
                return Response(status_code=204)
            return json_response({"failures": failed}, status=207)


def _code(error: KafkaError) -> int:
    from odradek.services.kafka_problems import explain  # noqa: PLC0415 - for failures alone

    problem = explain(error)
    return 500 if problem is None else problem.code


async def _of_several(asked: ResourceRequest, kind: str, owners: Iterable[_Owner]) -> Json:
    owners = list(owners)
    data: list[Json] = []
    answers = await asked.admin.describe_configs(
        [owner.resource for owner in owners], include_synonyms=True
    )
    for owner in owners:
        entries = answers[owner.resource]
        if not isinstance(entries, KafkaError):
            data += [config_json(asked.links, owner, entry) for entry in entries.values()]
    place = "topics" if kind == "Topic" else "brokers"
    return asked.links.collection(f"{kind}Config", (place, "-", "configs"), data)


def _owner(asked: ResourceRequest) -> _Owner:
    if "topic_name" in asked.path:
        return _topic(asked.path["topic_name"])
    if "broker_id" in asked.path:
        return _broker(asked.path["broker_id"])
    return _Owner(
        "Cluster", ("broker-configs",), ("broker-configs",), {},
        {"config_type": "BROKER"}, _ALL_BROKERS,
    )  # fmt: skip


def _topic(name: str, *, all_topics: bool = False) -> _Owner:
    return _Owner(
        "Topic", ("topics", name, "configs"),
        ("topics", "-" if all_topics else name, "configs"), {"topic": name},
        {"topic_name": name}, ConfigResource(ConfigType.TOPIC, name),
    )  # fmt: skip


def _broker(broker_id: int, *, all_brokers: bool = False) -> _Owner:
    return _Owner(
        "Broker", ("brokers", broker_id, "configs"),
        ("brokers", "-" if all_brokers else broker_id, "configs"), {"broker": broker_id},
        {"broker_id": broker_id}, ConfigResource(ConfigType.BROKER, str(broker_id)),
    )  # fmt: skip


async def _entries(asked: ResourceRequest, owner: _Owner) -> dict[str, ConfigEntry]:
    if owner.kind == "Broker":
        # A request to a broker that is not there could not be sent.
        await require_broker(asked)
    answers = await asked.admin.describe_configs([owner.resource], include_synonyms=True)
    entries = answers[owner.resource]
    if isinstance(entries, KafkaError):
        raise entries
    return entries


def _change(name: str, value: Value, operation: str | None) -> ConfigChange:
    if not name:
        raise Problem(400, "the name of a setting is empty", code=BAD_REQUEST)
    if operation == "DELETE" or value is None:
        return ConfigChange(name, None, ConfigOperation.DELETE)
    return ConfigChange(name, config_text(value), ConfigOperation.SET)


async def _apply(
    asked: ResourceRequest,
    owner: _Owner,
    changes: list[ConfigChange],
    *,
    validate_only: bool = False,
) -> None:
    if not changes:
        return
    if owner.kind != "Cluster":
        # Brokers take back a setting that they do not know, and keep unknown ones for plug-ins.
        _require_known(changes, await _entries(asked, owner))
    answers = await asked.admin.incremental_alter_configs(
        {owner.resource: changes}, validate_only=validate_only
    )
    error = answers[owner.resource]
    if error is not None:
        raise error


def _require_known(changes: Iterable[ConfigChange], known: Collection[str]) -> None:
    for change in changes:
        if change.name not in known:
            raise missing(f"there is no setting {change.name}")


def config_json(links: Links, owner: _Owner, entry: ConfigEntry) -> Json:
    return links.resource(
        f"{owner.kind}Config", (*owner.path, entry.name), {**owner.names, owner.named: entry.name},
        **owner.content, name=entry.name, value=entry.value, is_default=entry.is_default,
        is_read_only=entry.is_read_only, is_sensitive=entry.is_sensitive,
        source=_source(entry.source),
        synonyms=[
            {"name": one.name, "value": one.value, "source": _source(one.source)}
            for one in entry.synonyms
        ],
    )  # fmt: skip


def _source(source: ConfigSource) -> str:
    return source.name
