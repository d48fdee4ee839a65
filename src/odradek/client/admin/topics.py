"""Admin calls about topics."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from odradek.client import arguments
from odradek.client.admin.channel import AdminChannel, error_or_none
from odradek.client.admin.results import Results
from odradek.client.admin.topic_types import (
    ListedTopics,
    NewPartitions,
    NewTopic,
    SettingValue,
)
from odradek.client.cluster_view import Topic, topic_from
from odradek.client.errors import ClientError
from odradek.client.missing_topics import comparable
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import ErrorCode, KafkaError, UnknownTopic, error_for
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from odradek.protocol.types import NO_TOPIC_ID, TopicId

T = TypeVar("T")


class TopicCalls(AdminChannel):
    async def create_topics(
        self, topics: Iterable[NewTopic | str], *, validate_only: bool = False
    ) -> Results[str, CreatableTopicResult | KafkaError]:
        """Creates topics; the answer of each is its description or its error.

        A name alone is a topic with the broker's defaults.
        """
        new_topics = _new_topics(topics)
        response = await self.controller_request(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=topic.name,
                        num_partitions=-1 if topic.assignments else topic.partitions,
                        replication_factor=-1 if topic.assignments else topic.replication_factor,
                        assignments=[
                            CreatableReplicaAssignment(
                                partition_index=index,
                                broker_ids=arguments.broker_ids(replicas, "create_topics()"),
                            )
                            for index, replicas in topic.assignments.items()
                        ],
                        configs=[
                            CreatableTopicConfig(
                                name=name,
                                value=arguments.setting_text(value, "create_topics()", name),
                            )
                            for name, value in topic.configs.items()
                        ],
                    )
                    for topic in new_topics
                ],
                timeout_ms=self.settings.request_timeout_ms,
                validate_only=validate_only,
            ),
            CreateTopicsResponse,
        )
        answers: dict[str, CreatableTopicResult | KafkaError] = {
            result.name: error_for(result.error_code, result.error_message)
            if result.error_code
            else result
            for result in response.topics
        }
        return Results("create_topics()", answers)

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, SettingValue] | None = None,
    ) -> CreatableTopicResult:
        """Creates one topic, or raises the error."""
        topic = NewTopic(name, partitions, replication_factor, configs=configs or {})
        return _only(await self.create_topics([topic]))

    async def delete_topics(self, names: Iterable[str]) -> Results[str, KafkaError | None]:
        """Deletes topics by name; the answer of each is None or its error."""
        topic_names = arguments.names(names, "delete_topics()")
        response = await self.controller_request(
            DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name) for name in topic_names],
                topic_names=topic_names,
                timeout_ms=self.settings.request_timeout_ms,
            ),
            DeleteTopicsResponse,
        )
        return Results(
            "delete_topics()",
            {
                result.name or "": error_or_none(result.error_code, result.error_message)
                for result in response.responses
            },
        )

    async def delete_topics_by_id(
        self, ids: Iterable[TopicId]
    ) -> Results[TopicId, KafkaError | None]:
        """Deletes topics by id; the answer of each is None or its error."""
        call, needed = "delete_topics_by_id()", "ids of 16 bytes"
        topic_ids = arguments.several(bytes, ids, call, needed)
        for topic_id in topic_ids:
            if len(topic_id) != len(NO_TOPIC_ID):
                raise arguments.wrong(call, needed, topic_id)
        response = await self.controller_request(
            DeleteTopicsRequest(
                topics=[DeleteTopicState(topic_id=TopicId(topic_id)) for topic_id in topic_ids],
                timeout_ms=self.settings.request_timeout_ms,
            ),
            DeleteTopicsResponse,
        )
        return Results(
            call,
            {
                result.topic_id: error_or_none(result.error_code, result.error_message)
                for result in response.responses
            },
        )

    async def delete_topic(self, name: str) -> None:
        """Deletes one topic, or raises the error."""
        _only(await self.delete_topics([arguments.a_name(name, "delete_topic()")]))

    async def list_topics(self, *, include_internal: bool = False) -> dict[str, Topic]:
        """Returns all topics, by name."""
        response = await self.describe_metadata(None)
        topics = (
            topic_from(described, None) for described in response.topics if not described.error_code
        )
        return ListedTopics(
            (topic.name, topic)
            for topic in sorted(topics, key=lambda topic: topic.name)
            if include_internal or not topic.is_internal
        )

    async def describe_topics(self, names: Iterable[str]) -> Results[str, Topic | KafkaError]:
        """Returns partitions, leaders and replicas of each topic, or its error."""
        response = await self.describe_metadata(arguments.names(names, "describe_topics()"))
        answers: dict[str, Topic | KafkaError] = {
            described.name or "": error_for(described.error_code)
            if described.error_code
            else topic_from(described, None)
            for described in response.topics
        }
        missing = [name for name, answer in answers.items() if isinstance(answer, UnknownTopic)]
        if missing:
            answers |= await self._explained(missing)
        return Results("describe_topics()", answers)

    async def _explained(self, missing: Sequence[str]) -> dict[str, UnknownTopic]:
        """Returns the errors of topics that do not exist, with names that were probably meant.

        All names are asked for once by a client, because it may ask again until a topic is there.
        """
        known: Collection[str] = ()
        if not self._has_compared:
            self._has_compared = True
            # The error that is explained is worth more than its hint.
            with suppress(ClientError, KafkaError):
                known = await self.list_topics(include_internal=True)
        return {
            name: UnknownTopic(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"There is no topic {name}{did_you_mean(name, comparable(name, known))}",
            )
            for name in missing
        }

    async def describe_topic_partitions(
        self, names: Iterable[str], *, page_partitions: int = 2000
    ) -> AsyncIterator[DescribeTopicPartitionsResponseTopic]:
        """Yields topics, with at most `page_partitions` partitions per request.

        A topic that spans several requests is yielded once for each, with the partitions of that
        request. Only this call returns eligible leader replicas.
        """
        asked = arguments.names(names, "describe_topic_partitions()")
        if not asked:
            return  # to a broker, no names mean all topics
        topics = [TopicRequest(name=name) for name in sorted(set(asked))]
        cursor: Cursor | None = None
        while True:
            response = await self.request(
                DescribeTopicPartitionsRequest(
                    topics=topics, response_partition_limit=page_partitions, cursor=cursor
                ),
                DescribeTopicPartitionsResponse,
            )
            for topic in response.topics:
                yield topic
            cursor = response.next_cursor
            if cursor is None:
                return

    async def create_partitions(
        self, topics: Mapping[str, NewPartitions | int], *, validate_only: bool = False
    ) -> Results[str, KafkaError | None]:
        """Increases the number of partitions; a plain number is the new total."""
        requested = []
        call, line = "create_partitions()", '{"topic": 6}'
        for name, new in arguments.mapping(topics, call, line).items():
            arguments.a_name(name, call)
            partitions = new if isinstance(new, NewPartitions) else NewPartitions(new)
            assignments = partitions.assignments
            requested.append(
                CreatePartitionsTopic(
                    name=name,
                    count=partitions.total,
                    assignments=None
                    if assignments is None
                    else [
                        CreatePartitionsAssignment(broker_ids=arguments.broker_ids(replicas, call))
                        for replicas in assignments
                    ],
                )
            )
        response = await self.controller_request(
            CreatePartitionsRequest(
                topics=requested,
                timeout_ms=self.settings.request_timeout_ms,
                validate_only=validate_only,
            ),
            CreatePartitionsResponse,
        )
        return Results(
            call,
            {
                result.name: error_or_none(result.error_code, result.error_message)
                for result in response.results
            },
        )


def _new_topics(given: Iterable[NewTopic | str]) -> list[NewTopic]:
    kinds: tuple[type[NewTopic | str], ...] = (NewTopic, str)
    topics = arguments.several(
        kinds, given, "create_topics()", "topics as NewTopic", '[NewTopic("topic", partitions=3)]'
    )
    return [NewTopic(topic) if isinstance(topic, str) else topic for topic in topics]


def _only(answers: Mapping[str, T | KafkaError]) -> T:
    """Returns the single answer, or raises it if it is an error."""
    for answer in answers.values():
        if isinstance(answer, KafkaError):
            raise answer
        return answer
    raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker did not answer")
