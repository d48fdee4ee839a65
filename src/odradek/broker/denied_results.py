"""The results for topics on which a client has no permission: an error for each partition."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from odradek.protocol.errors import ErrorCode


class _PartitionRequest(Protocol):
    @property
    def partition_index(self) -> int: ...


class _TopicRequest(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[_PartitionRequest]: ...


PartitionResult = TypeVar("PartitionResult")
PartitionResult_co = TypeVar("PartitionResult_co", covariant=True)
TopicResult = TypeVar("TopicResult")
TopicResult_co = TypeVar("TopicResult_co", covariant=True)


class _PartitionResultType(Protocol[PartitionResult_co]):
    def __call__(self, *, partition_index: int, error_code: int) -> PartitionResult_co: ...


class _TopicResultType(Protocol[PartitionResult, TopicResult_co]):
    def __call__(self, *, name: str, partitions: list[PartitionResult]) -> TopicResult_co: ...


def denied_topics(
    topics: Iterable[_TopicRequest],
    topic_result: _TopicResultType[PartitionResult, TopicResult],
    partition_result: _PartitionResultType[PartitionResult],
    error: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED,
) -> list[TopicResult]:
    """Returns the results for topics that the client is denied. `topic_result` and
    `partition_result` are the classes of the results in the response of the API."""
    return [
        topic_result(
            name=topic.name,
            partitions=[
                partition_result(partition_index=partition.partition_index, error_code=error)
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]
