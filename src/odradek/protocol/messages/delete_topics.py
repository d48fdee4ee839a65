"""DeleteTopics: deletes topics by name, and from version 6 by name or by id."""

from typing import Final

from odradek.protocol.apis import Api
from odradek.protocol.schema import Request, Response, Struct, array, int16, int32, string, uuid
from odradek.protocol.types import TopicId


class DeleteTopicState(Struct):
    name: str | None = string(nullable="0+", default=None)
    topic_id: TopicId = uuid()


class DeleteTopicsRequest(Request):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "0-5")
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: TopicId = uuid("6+")
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None)


class DeleteTopicsResponse(Response):
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)


API: Final = Api(20, DeleteTopicsRequest, DeleteTopicsResponse, flexible_from=4, min_version=1)
