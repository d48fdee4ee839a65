"""Version 3: topics are listed, created, grown and deleted."""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.client.admin.topic_types import NewTopic
from odradek.client.cluster_view import Partition, Topic
from odradek.protocol.errors import ErrorCode, KafkaError
from odradek.rest.links import Json, Links
from odradek.rest.v3.resources import (
    CLUSTER,
    NO_CONTENT,
    NOT_FOUND,
    OK,
    SERVER,
    ResourceRequest,
    Resources,
)
from odradek.services.kafka_problems import BAD_REQUEST
from odradek.services.permissions import allowed_operations
from odradek.web.bodies import read_body
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.problems import Problem, json_response

_TOPICS = f"{CLUSTER}/topics"
_TOPIC = f"{_TOPICS}/{{topic_name}}"
_AUTHORIZED = Parameter(
    "include_authorized_operations", bool, False, "Also what the caller may do with each topic."
)
_MAX_REPLICATION = 32767


class NewConfig(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: str | int | float | bool | None = None


class CreateTopic(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to create; what is left out is the brokers' default."""

    topic_name: str
    partitions_count: int | None = None
    replication_factor: int | None = None
    replicas_assignments: dict[str, list[int]] | None = None
    configs: list[NewConfig] | None = None
    validate_only: bool | None = None


class GrowTopic(msgspec.Struct, forbid_unknown_fields=True):
    partitions_count: int


class Topics(Resources):
    def endpoints(self) -> list[Endpoint]:
        answers = {**OK, **NOT_FOUND, **SERVER}
        created = {
            201: "The new topic.", 200: "With validate_only: it could be created.",
            **NOT_FOUND, **SERVER,
        }  # fmt: skip
        return [
            Endpoint(
                "GET", _TOPICS, self._list, "All topics that the caller may see.",
                (_AUTHORIZED,), responses=answers,
            ),
            Endpoint(
                "POST", _TOPICS, self._create, "Creates a topic.", changes=True,
                body=CreateTopic, responses=created,
            ),
            Endpoint("GET", _TOPIC, self._get, "A topic.", (_AUTHORIZED,), responses=answers),
            Endpoint(
                "PATCH", _TOPIC, self._grow, "Adds partitions to a topic.", changes=True,
                body=GrowTopic, responses=answers,
            ),
            Endpoint(
                "DELETE", _TOPIC, self._delete, "Deletes a topic with its records.",
                changes=True, responses={**NO_CONTENT, **NOT_FOUND, **SERVER},
            ),
        ]  # fmt: skip

    async def _list(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            topics = await asked.admin.list_topics(include_internal=True)
            allowed = await _allowed(asked, request, topics)
            data = [
                topic_json(asked.links, topic, allowed.get(topic.name, ()))
                for topic in topics.values()
            ]
            return json_response(asked.links.collection("Topic", ("topics",), data))

    async def _get(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            topic = await asked.topic(asked.path["topic_name"])
            allowed = await _allowed(asked, request, [topic.name])
            return json_response(topic_json(asked.links, topic, allowed.get(topic.name, ())))

    async def _create(self, request: Request) -> Response:
        wanted = await read_body(request, CreateTopic, missing=400)
        new = _new_topic(wanted)
        async with self.asked(request) as asked:
            only_checked = bool(wanted.validate_only)
            answers = await asked.admin.create_topics([new], validate_only=only_checked)
            created = answers[new.name]
            if isinstance(created, KafkaError):
                raise created
            count, factor = created.num_partitions, created.replication_factor
            shown = _described(asked.links, new.name, count, factor, is_internal=False)
            return json_response(
                shown,
                status=200 if only_checked else 201,
                headers={"location": shown["metadata"]["self"]},
            )

    async def _grow(self, request: Request) -> Response:
        wanted = await read_body(request, GrowTopic, missing=400)
        async with self.asked(request) as asked:
            name = asked.path["topic_name"]
            if not 0 < wanted.partitions_count < 2**31:
                raise Problem(400, "partitions_count is a number above 0", code=BAD_REQUEST)
            error = (await asked.admin.create_partitions({name: wanted.partitions_count}))[name]
            if error is not None:
                raise error
            return json_response(topic_json(asked.links, await self._grown(asked, name, wanted)))

    async def _grown(self, asked: ResourceRequest, name: str, wanted: GrowTopic) -> Topic:
        """Returns the topic as it is now. A broker that has not heard of the new partitions yet
        would show the old number."""
        topic = await asked.topic(name)
        missing = range(len(topic.partitions), wanted.partitions_count)
        for index in missing:
            topic.partitions[index] = _UNKNOWN_PARTITION
        return topic

    async def _delete(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            await asked.admin.delete_topic(asked.path["topic_name"])
            return Response(status_code=204)


_UNKNOWN_PARTITION: Any = Partition(-1, -1, -1, (), (), ())  # type: ignore[arg-type]


def _new_topic(wanted: CreateTopic) -> NewTopic:
    """Returns the topic to create; raises 400 for numbers that cannot be."""
    assignments = {}
    for index, brokers in (wanted.replicas_assignments or {}).items():
        if not (index.isascii() and index.isdigit() and len(index) < 10):
            raise Problem(400, f"{index!r} is not the number of a partition", code=BAD_REQUEST)
        if not all(0 <= broker < 2**31 for broker in brokers):
            raise Problem(400, "a broker is a number from 0 on", code=BAD_REQUEST)
        assignments[int(index)] = brokers
    partitions = -1 if wanted.partitions_count is None else wanted.partitions_count
    factor = -1 if wanted.replication_factor is None else wanted.replication_factor
    if not -1 <= partitions < 2**31 or not -1 <= factor <= _MAX_REPLICATION:
        raise Problem(400, "partitions_count or replication_factor is too large", code=BAD_REQUEST)
    return NewTopic(
        topic_name(wanted.topic_name),
        partitions,
        factor,
        assignments,
        {
            config.name: config_text(config.value)
            for config in wanted.configs or ()
            if config.value is not None
        },
    )


def topic_name(name: str) -> str:
    if not name:
        raise Problem(400, "the name of a topic is empty", code=BAD_REQUEST)
    return name


def config_text(value: object) -> str | None:
    """Returns the value of a setting as Kafka writes it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


async def _allowed(
    asked: ResourceRequest, request: Request, topics: Collection[str]
) -> dict[str, list[str]]:
    """Returns what the caller may do with each topic, if the request asks for it."""
    wanted = request.query_params.get(_AUTHORIZED.name)
    if wanted is None or not _AUTHORIZED.parse(wanted) or not topics:
        return {}
    found = await allowed_operations(asked.clients, topics)
    return {
        topic: [one.name for one in sorted(operations)]
        for topic, operations in found.items()
        if not isinstance(operations, ErrorCode)
    }


def topic_json(links: Links, topic: Topic, allowed: Iterable[str] = ()) -> Json:
    replicas = [len(partition.replicas) for partition in topic.partitions.values()]
    factor = replicas[0] if replicas else 0
    shown = _described(
        links, topic.name, len(topic.partitions), factor, is_internal=topic.is_internal
    )
    return {**shown, "authorized_operations": list(allowed)}


def _described(links: Links, name: str, count: int, factor: int, *, is_internal: bool) -> Json:
    path = ("topics", name)
    return links.resource(
        "Topic", path, {"topic": name},
        topic_name=name, is_internal=is_internal, replication_factor=factor,
        partitions_count=count,
        partitions=links.related(*path, "partitions"),
        configs=links.related(*path, "configs"),
        partition_reassignments=links.related(*path, "partitions", "-", "reassignment"),
        authorized_operations=[],
    )  # fmt: skip
