"""Headers against kio's, frames with their sizes, and the exception for ApiVersions."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.apis import all_apis
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    response_header_version,
)
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.types import Part
from tests.unit.protocol.oracle import every_version, kio_bytes, kio_class_of


def joined(parts: list[Part]) -> bytes:
    return b"".join(bytes(part) for part in parts if isinstance(part, bytes | memoryview))


def unframed(parts: list[Part]) -> bytes:
    content = joined(parts)
    assert int.from_bytes(content[:4], "big") == len(content) - 4
    return content[4:]


@pytest.mark.parametrize(
    ("api", "version"), every_version(), ids=lambda value: getattr(value, "name", value)
)
@pytest.mark.parametrize("client_id", [None, "", "client-é"])
def test_headers_are_those_of_kio(api: Any, version: int, client_id: str | None) -> None:
    request = api.request()
    frame = unframed(encode_request(request, version, 77, client_id))
    header_class = kio_class_of(api.request, api.key, version).__header_schema__
    expected = kio_bytes(
        header_class(
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=77,
            client_id=client_id,
        )
    )
    assert frame == expected + joined(request.encode(version))
    assert decode_request_header(frame) == (
        RequestHeader(api.key, version, 77, client_id),
        len(expected),
    )

    response = api.response()
    frame = unframed(encode_response(response, version, 78))
    header_class = kio_class_of(api.response, api.key, version).__header_schema__
    assert header_class.__version__ == response_header_version(api.key, version)
    assert frame == kio_bytes(header_class(correlation_id=78)) + joined(response.encode(version))
    assert decode_response(frame, api.key, version) == (78, response)


def test_the_response_to_api_versions_keeps_the_oldest_header() -> None:
    response = ApiVersionsResponse(
        error_code=ErrorCode.NONE, api_keys=[ApiVersion(api_key=18, max_version=4)]
    )
    frame = unframed(encode_response(response, 4, 9))
    assert frame.startswith(b"\0\0\0\x09\0\0\x02\0\x12")
    assert response_header_version(ApiVersionsRequest.api_key, 4) == 0


def test_an_unknown_version_of_api_versions_still_has_a_readable_header() -> None:
    frame = bytearray(unframed(encode_request(ApiVersionsRequest(), 4, 5, "newer")))
    frame[2:4] = (99).to_bytes(2, "big")
    header, _ = decode_request_header(frame)
    assert header == RequestHeader(18, 99, 5, "newer")


def test_an_unknown_api_still_has_a_readable_header() -> None:
    frame = b"\x03\xe7\0\x01\0\0\0\x05\xff\xff"
    assert decode_request_header(frame) == (RequestHeader(999, 1, 5, None), 10)


def test_unknown_tags_in_a_header_are_skipped() -> None:
    frame = b"\0\x12\0\x03\0\0\0\x05\xff\xff" + b"\x01\x63\x02ab" + b"body"
    assert decode_request_header(frame)[1] == len(frame) - 4


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x12\0\x03\0\0\0\x05\xff",
        b"\0\x12\0\x00\0\0\0\x05\xff\xfe",
        b"\0\x12\0\x00\0\0\0\x05\0\x09abc",
        b"\0\x12\0\x00\0\0\0\x05\0\x01\xff",
        b"\0\x12\0\x03\0\0\0\x05\xff\xff",
        b"\0\x12\0\x03\0\0\0\x05\xff\xff\x01\x63\x09ab",
    ],
)
def test_bad_headers_are_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_request_header(frame)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_header_or_malformed(frame: bytes) -> None:
    try:
        header, position = decode_request_header(frame)
    except MalformedMessage:
        return
    assert 10 <= position <= len(frame)
    assert -(2**15) <= header.api_key < 2**15


@given(st.binary(max_size=40), st.sampled_from(every_version()))
def test_any_bytes_are_a_response_or_malformed(frame: bytes, row: tuple[Any, int]) -> None:
    api, version = row
    try:
        _, response = decode_response(frame, api.key, version)
    except MalformedMessage:
        return
    assert type(response) is api.response


def test_records_stay_parts_of_their_own() -> None:
    records = memoryview(b"r" * 5000)
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)]),
        ]
    )
    parts = encode_response(response, 12, 1)
    assert len(parts) == 3
    assert parts[1] is records
    _, decoded = decode_response(unframed(parts), FetchRequest.api_key, 12)
    assert decoded == response


def test_the_table_imports_no_message() -> None:
    program = (
        "import sys, odradek.protocol.headers\n"
        "print([m for m in sys.modules if m.startswith('odradek.protocol.messages.')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_names_are_kafkas() -> None:
    assert all_apis()[AddPartitionsToTxnRequest.api_key].name == "AddPartitionsToTxn"
    assert repr(all_apis()[FetchRequest.api_key]) == "Api(Fetch 4-18)"
