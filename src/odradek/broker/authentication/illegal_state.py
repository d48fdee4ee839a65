"""The answer to a request that comes in the middle of a log-in: ILLEGAL_SASL_STATE, in the format
of the request's own API, as Kafka answers."""

from typing import cast

from odradek.broker.network.reply_writer import Parts
from odradek.protocol.apis import find_api
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.headers import RequestHeader, encode_response
from odradek.protocol.schema import Response
from odradek.protocol.types import Buffer


def illegal_state_response(frame: Buffer, header: RequestHeader, position: int) -> Parts:
    """Returns the encoded response. Raises `MalformedMessage` for an API or a version that is not
    known: nobody could read an answer."""
    api = find_api(header.api_key)
    version = header.api_version
    if api is None or not api.min_version <= version <= api.max_version:
        raise MalformedMessage(f"a request of API {header.api_key} in the middle of the log-in")
    if api.module_name == "metadata":
        response = _metadata(frame, version, position)
    else:
        response = api.response()
        if hasattr(response, "error_code"):
            response.error_code = ErrorCode.ILLEGAL_SASL_STATE
    return cast("Parts", encode_response(response, version, header.correlation_id))


def _metadata(frame: Buffer, version: int, position: int) -> Response:
    """A Metadata response has its errors at the topics."""
    from odradek.protocol.messages.metadata import (  # noqa: PLC0415 - hardly ever needed
        MetadataRequest,
        MetadataResponse,
        MetadataResponseTopic,
    )

    request = MetadataRequest.decode(frame, version, position, allow_trailing=True)
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                # A request may name a topic by its id alone before a response may (version 12).
                name=topic.name or "",
                topic_id=topic.topic_id,
            )
            for topic in request.topics or []
        ]
    )
