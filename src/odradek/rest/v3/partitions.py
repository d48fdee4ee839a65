"""Version 3: partitions, their replicas, offsets and reassignments."""

from starlette.requests import Request
from starlette.responses import Response

from odradek.client.admin.partitions import Reassignment
from odradek.client.cluster_view import NO_BROKER, Partition
from odradek.protocol.types import TopicPartition
from odradek.rest.links import Json, Links
from odradek.rest.offset_ranges import offset_range
from odradek.rest.v3.resources import (
    CLUSTER,
    NOT_FOUND,
    OK,
    SERVER,
    ResourceRequest,
    Resources,
    missing,
)
from odradek.web.endpoints import Endpoint, Parameter
from odradek.web.problems import Problem, json_response

_ALL = f"{CLUSTER}/topics/{{topic_name}}/partitions"
_ONE = f"{_ALL}/{{partition_id:int}}"
_BOTH = "earliest_and_latest"


class Partitions(Resources):
    _offset_of = Parameter("offset_type", str, _BOTH, f"Which offsets: {_BOTH}.")

    def endpoints(self) -> list[Endpoint]:
        answers = {**OK, **NOT_FOUND, **SERVER}

        def get(path: str, handler: object, summary: str, *parameters: Parameter) -> Endpoint:
            return Endpoint("GET", path, handler, summary, parameters, responses=answers)  # type: ignore[arg-type]

        return [
            get(_ALL, self._list, "The partitions of a topic."),
            get(_ONE, self._get, "A partition."),
            get(
                f"{_ONE}/offset", self._offset, "The first and the next offset of a partition.",
                self._offset_of,
            ),
            get(f"{_ONE}/replicas", self._replicas, "The replicas of a partition."),
            get(f"{_ONE}/replicas/{{broker_id:int}}", self._replica, "A replica."),
            get(f"{_ONE}/reassignment", self._reassignment, "How a partition is being moved."),
            get(f"{_ALL}/-/reassignment", self._of_topic, "The moves of a topic's partitions."),
            get(
                f"{CLUSTER}/topics/-/partitions/-/reassignment", self._reassignments,
                "All partitions that are being moved.",
            ),
        ]  # fmt: skip

    async def _list(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            name = asked.path["topic_name"]
            topic = await asked.topic(name)
            data = [
                partition_json(asked.links, name, partition)
                for partition in topic.partitions.values()
            ]
            segments = ("topics", name, "partitions")
            return json_response(asked.links.collection("Partition", segments, data))

    async def _get(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            name, partition = await _partition(asked)
            return json_response(partition_json(asked.links, name, partition))

    async def _offset(self, request: Request) -> Response:
        wanted = request.query_params.get("offset_type", _BOTH)
        if wanted != _BOTH:
            raise Problem(400, f"offset_type is {_BOTH}, not {wanted[:100]!r}")
        async with self.asked(request) as asked:
            name, partition = await _partition(asked)
            first, next_ = await offset_range(asked.admin, TopicPartition(name, partition.index))
            segments = ("topics", name, "partitions", partition.index, "offset")
            return json_response(
                asked.links.resource(
                    "PartitionWithOffsets", segments,
                    {**_names(name, partition.index), "offset_type": _BOTH},
                    topic_name=name, partition_id=partition.index,
                    earliest_offset=first, latest_offset=next_,
                )
            )  # fmt: skip

    async def _replicas(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            name, partition = await _partition(asked)
            data = [
                replica_json(asked.links, name, partition, broker) for broker in partition.replicas
            ]
            segments = ("topics", name, "partitions", partition.index, "replicas")
            return json_response(asked.links.collection("Replica", segments, data))

    async def _replica(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            name, partition = await _partition(asked)
            broker_id = asked.path["broker_id"]
            if broker_id not in partition.replicas:
                raise missing(f"broker {broker_id} has no replica of {name}-{partition.index}")
            return json_response(replica_json(asked.links, name, partition, broker_id))

    async def _reassignment(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            name, partition = await _partition(asked)
            key = TopicPartition(name, partition.index)
            moves = await asked.admin.list_partition_reassignments([key])
            if key not in moves:
                raise missing(f"partition {key} is not being moved")
            return json_response(_reassignment_json(asked.links, key, moves[key]))

    async def _of_topic(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            name = asked.path["topic_name"]
            topic = await asked.topic(name)
            moves = await asked.admin.list_partition_reassignments(
                TopicPartition(name, index) for index in topic.partitions
            )
            segments = ("topics", name, "partitions", "-", "reassignment")
            return json_response(_reassignments(asked.links, segments, moves))

    async def _reassignments(self, request: Request) -> Response:
        async with self.asked(request) as asked:
            moves = await asked.admin.list_partition_reassignments()
            segments = ("topics", "-", "partitions", "-", "reassignment")
            return json_response(_reassignments(asked.links, segments, moves))


async def _partition(asked: ResourceRequest) -> tuple[str, Partition]:
    name: str = asked.path["topic_name"]
    return name, await asked.partition(name, asked.path["partition_id"])


def _names(topic: str, index: int) -> Json:
    return {"topic": topic, "partition": index}


def partition_json(links: Links, topic: str, partition: Partition) -> Json:
    path = ("topics", topic, "partitions", partition.index)
    leader: Json = {}
    if partition.leader != NO_BROKER:
        leader = {"leader": links.related(*path, "replicas", partition.leader)}
    return links.resource(
        "Partition", path, _names(topic, partition.index),
        topic_name=topic, partition_id=partition.index, **leader,
        replicas=links.related(*path, "replicas"),
        reassignment=links.related(*path, "reassignment"),
    )  # fmt: skip


def replica_json(links: Links, topic: str, partition: Partition, broker_id: int) -> Json:
    return links.resource(
        "Replica", ("topics", topic, "partitions", partition.index, "replicas", broker_id),
        {**_names(topic, partition.index), "replica": broker_id},
        topic_name=topic, partition_id=partition.index, broker_id=broker_id,
        is_leader=partition.leader == broker_id, is_in_sync=broker_id in partition.in_sync,
        broker=links.related("brokers", broker_id),
    )  # fmt: skip


def _reassignments(
    links: Links, segments: tuple[object, ...], moves: dict[TopicPartition, Reassignment]
) -> Json:
    data = [_reassignment_json(links, partition, move) for partition, move in moves.items()]
    return links.collection("Reassignment", segments, data)


def _reassignment_json(links: Links, partition: TopicPartition, move: Reassignment) -> Json:
    topic, index = partition
    path = ("topics", topic, "partitions", index)
    return links.resource(
        "Reassignment", (*path, "reassignment"), {**_names(topic, index), "reassignment": None},
        topic_name=topic, partition_id=index,
        adding_replicas=list(move.adding), removing_replicas=list(move.removing),
        replicas=links.related(*path, "replicas"),
    )  # fmt: skip
