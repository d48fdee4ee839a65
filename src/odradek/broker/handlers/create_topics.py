"""CreateTopics (v2-v7): creates topics, or only says whether they could be created.

Each topic is created on its own: if one is refused, the others are still created. The response is
sent when this broker can append records to the partitions that it leads.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

from odradek.broker.config_resources import require_write_on_dead_letters
from odradek.broker.handlers import Handler
from odradek.broker.permissions import CheckedByHandler
from odradek.broker.services import RequestContext, Services
from odradek.cluster.topics import CreatedTopic, NewTopic
from odradek.config import BrokerSettings, describe_topic
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import (
    API,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.types import BrokerId

_FIRST_VERSION_WITH_CONFIGS: Final = CreatableTopicResult.first_version_with("configs")
# An older client does not know the error THROTTLING_QUOTA_EXCEEDED (KIP-599).
_FIRST_VERSION_WITH_QUOTA_ERROR: Final = 6
# After this many topics the event loop serves other connections.
_AT_ONCE: Final = 50


async def handle(
    services: Services, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    allowed, denied = request.topics, list[CreatableTopic]()
    if not context.authorize_cluster_without_logging(Operation.CREATE):
        allowed, denied = context.split_authorized(
            Operation.CREATE, ResourceType.TOPIC, request.topics, lambda topic: topic.name
        )
    counts_by_name = Counter(topic.name for topic in allowed)
    by_name = {topic.name: topic for topic in allowed}
    results = []
    for name, times in counts_by_name.items():
        result = CreatableTopicResult(name=name, error_message=None)
        results.append(result)
        if not len(results) % _AT_ONCE:
            # `create` may raise before it awaits anything: many such topics would stall the loop.
            await asyncio.sleep(0)
        try:
            if times > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Topic '{name}' is named {times} times.")
            require_write_on_dead_letters(context, by_name[name].configs, {})
            created = await services.topics.create(
                _new_topic(by_name[name]),
                validate_only=request.validate_only,
                admit=lambda partitions: services.quotas.take_mutations(
                    context, partitions, strict_from=_FIRST_VERSION_WITH_QUOTA_ERROR
                ),
            )
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        _show(services, created, result, configs=context.version >= _FIRST_VERSION_WITH_CONFIGS)
    for result in results:
        _hide_configs(context, result)
    return CreateTopicsResponse(topics=results + [_denied_result(topic) for topic in denied])


def _denied_result(topic: CreatableTopic) -> CreatableTopicResult:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return CreatableTopicResult(
        name=topic.name, error_code=error, error_message=error.message, configs=None
    )


def _hide_configs(context: RequestContext, result: CreatableTopicResult) -> None:
    """Removes the settings from the result if the client may not see them. A client may be allowed
    to create a topic and not to see its settings."""
    if not context.authorize_without_logging(
        Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, result.name
    ):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        result.num_partitions = result.replication_factor = -1
        result.configs = None


def _new_topic(topic: CreatableTopic) -> NewTopic:
    assignment = {
        partition.partition_index: list(map(BrokerId, partition.broker_ids))
        for partition in topic.assignments
    }
    if len(assignment) != len(topic.assignments):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The assignment names a partition twice."
        )
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        assignment,
        {config.name: config.value for config in topic.configs},
    )


def _show(
    services: Services, created: CreatedTopic, result: CreatableTopicResult, *, configs: bool
) -> None:
    """Writes what was created into the result, with the topic's settings if `configs` is set."""
    result.topic_id = created.topic_id
    result.num_partitions = len(created.replicas)
    result.replication_factor = len(created.replicas[0])
    if configs:
        settings = services.settings.broker
        result.configs = services.config_descriptions.get_or_describe(
            settings, created.overrides, "created", lambda: _configs(settings, created.overrides)
        )


def _configs(settings: BrokerSettings, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=described.name,
            value=described.value,
            read_only=described.read_only,
            config_source=described.source,
            is_sensitive=described.is_sensitive,
        )
        for described in describe_topic(settings, overrides)
    ]


HANDLER: Final = Handler(
    API,
    handle,
    permission=CheckedByHandler(
        "CREATE on the cluster or on each topic; DESCRIBE_CONFIGS on a topic to see its settings;"
        " WRITE on a dead-letter topic that is named"
    ),
)
