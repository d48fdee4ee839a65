"""The headers of requests and responses, and the frame size in front of them.

Requests have header version 1, or 2 (with a section of tagged fields) when the message is
flexible; version 0 was removed with ControlledShutdown. Responses have version 0, or 1 when the
message is flexible, except ApiVersions: a client that sends it does not know yet which versions
the broker has, so the response always has header version 0.
"""

import struct
from typing import Final, NamedTuple

from odradek.protocol.apis import API_VERSIONS_KEY, NEVER_FLEXIBLE, AnyApi, find_api
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.schema import Request, Response
from odradek.protocol.types import Buffer, Part
from odradek.protocol.wire import skip_tagged_fields

_REQUEST: Final = struct.Struct(">hhih")
_SIZED_REQUEST: Final = struct.Struct(">ihhih")
_SIZED_RESPONSE: Final = struct.Struct(">ii")
_SIZED_RESPONSE_WITH_TAGS: Final = struct.Struct(">iix")
_MAX_HEADER_TAGS: Final = 1000
_CORRELATION_ID: Final = struct.Struct(">i")

# Half the time of a NamedTuple's own constructor: every request has a header.
_new_tuple: Final = tuple.__new__

# From which version an API is flexible, for the APIs of which a request has come.
_FLEXIBLE_FROM: Final[dict[int, int]] = {}


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def response_header_version(api_key: int, version: int) -> int:
    if api_key == API_VERSIONS_KEY:
        return 0
    return 1 if version >= _known_api(api_key).flexible_from else 0


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Returns the header of a request, and the position where its body begins.

    The caller refuses unknown APIs and versions. The header of an unknown API is read as not
    flexible; its body cannot be read in any case.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(frame)
        position = 10
        client_id = None
        if length >= 0:
            position += length
            if position > len(frame):
                raise MalformedMessage("the client id is longer than the request")
            client_id = str(frame[10:position], "utf-8")
        elif length < -1:
            raise MalformedMessage("the client id has a negative length")
        flexible_from = _FLEXIBLE_FROM.get(api_key)
        if flexible_from is None:
            flexible_from = _find_flexible_from(api_key)
        if api_version >= flexible_from:
            if frame[position]:
                position, _ = skip_tagged_fields(frame, position, len(frame), _MAX_HEADER_TAGS)
            else:
                position += 1
    except (struct.error, IndexError) as error:
        raise MalformedMessage("the request ends within its header") from error
    except UnicodeDecodeError as error:
        raise MalformedMessage("the client id is not UTF-8 text") from error
    header = _new_tuple(RequestHeader, (api_key, api_version, correlation_id, client_id))
    return header, position


def _find_flexible_from(api_key: int) -> int:
    api = find_api(api_key)
    if api is None:
        return NEVER_FLEXIBLE
    _FLEXIBLE_FROM[api_key] = api.flexible_from
    return api.flexible_from


def _known_api(api_key: int) -> AnyApi:
    api = find_api(api_key)
    if api is None:
        raise KeyError(f"there is no API with the key {api_key}")
    return api


def encode_request(
    request: Request, version: int, correlation_id: int, client_id: str | None
) -> list[Part]:
    """Returns a whole frame, size included, as parts to write one after the other."""
    name = b"" if client_id is None else client_id.encode()
    name_length = -1 if client_id is None else len(name)
    tags = b"\0" if version >= request.flexible_versions.first else b""
    parts = request.encode(version, [name, tags])
    size = 10 + sum(map(len, parts))
    prefix = _SIZED_REQUEST.pack(size, request.api_key, version, correlation_id, name_length)
    return _prepend(prefix, parts)


def encode_response(response: Response, version: int, correlation_id: int) -> list[Part]:
    """Returns a whole frame, size included, as parts to write one after the other."""
    return frame_response(response, response.encode(version), version, correlation_id)


def frame_response(
    response: Response, parts: list[Part], version: int, correlation_id: int
) -> list[Part]:
    """The frame of a response whose parts have been encoded."""
    size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
    if version >= response.flexible_versions.first and response.api_key != API_VERSIONS_KEY:
        prefix = _SIZED_RESPONSE_WITH_TAGS.pack(size + 5, correlation_id)
    else:
        prefix = _SIZED_RESPONSE.pack(size + 4, correlation_id)
    return _prepend(prefix, parts)


def decode_correlation_id(frame: Buffer) -> int:
    """Returns the correlation id, which tells the request and so how to decode the rest."""
    try:
        correlation_id: int = _CORRELATION_ID.unpack_from(frame)[0]
    except struct.error as error:
        raise MalformedMessage("the response ends within its header") from error
    return correlation_id


def decode_response(frame: Buffer, api_key: int, version: int) -> tuple[int, Response]:
    """The correlation id and the message of a response to a request of this API and version."""
    correlation_id = decode_correlation_id(frame)
    position = 4
    try:
        if response_header_version(api_key, version):
            position, _ = skip_tagged_fields(frame, position, len(frame), _MAX_HEADER_TAGS)
    except IndexError as error:
        raise MalformedMessage("the response ends within its header") from error
    response: Response = _known_api(api_key).response.decode(frame, version, position)
    return correlation_id, response


def _prepend(prefix: bytes, parts: list[Part]) -> list[Part]:
    first = parts[0]
    if isinstance(first, bytes):
        parts[0] = prefix + first
    else:
        parts.insert(0, prefix)
    return parts
