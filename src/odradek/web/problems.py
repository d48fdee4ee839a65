"""Errors of an HTTP service: a status, and JSON with `error_code` and `message`."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

_JSON = "application/json"


class Problem(Exception):
    """An error that the client is told about. The message says what to do next."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})

    def response(self) -> Response:
        return json_response(
            {"error_code": self.status, "message": self.message},
            status=self.status,
            headers=self.headers,
        )


def json_response(
    content: object,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    media_type: str = _JSON,
) -> Response:
    return Response(msgspec.json.encode(content), status, dict(headers or {}), media_type)
