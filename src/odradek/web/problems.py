"""Errors of an HTTP service: a status, and JSON with `error_code` and `message`."""

from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from odradek.web.media import EVENTS, JSON, MEDIA_TYPE


class Problem(Exception):
    """An error that the client is told about. The message says what to do next.

    `code` is the `error_code` of the body where a service has finer codes than HTTP's statuses:
    Confluent's services say 40401 for an unknown topic.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})
        self.code = status if code is None else code

    def response(self, media_type: str = JSON) -> Response:
        return json_response(
            {"error_code": self.code, "message": self.message},
            status=self.status,
            headers=self.headers,
            media_type=JSON if media_type == EVENTS else media_type,
        )


def json_response(
    content: object,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    media_type: str = JSON,
) -> Response:
    return Response(msgspec.json.encode(content), status, dict(headers or {}), media_type)


def negotiated_response(request: Request, content: object) -> Response:
    """Returns JSON with the media type that the client's `Accept` header asked for."""
    return json_response(content, media_type=request.scope[MEDIA_TYPE])
