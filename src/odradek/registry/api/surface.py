"""What all endpoints of the registry share: media types, parameters, names, and ranges."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from starlette.requests import Request

from odradek.registry import errors
from odradek.registry.names import normal
from odradek.registry.registration import LATEST
from odradek.web.endpoints import Parameter
from odradek.web.problems import Problem

T = TypeVar("T")

PRODUCES: Final = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
ACCEPTS: Final = (*PRODUCES, "application/octet-stream")
"""What the bodies of requests may be, as in Confluent's registry."""

DELETED: Final = Parameter("deleted", bool, False, "Also what is soft deleted.")
DELETED_ONLY: Final = Parameter("deletedOnly", bool, False, "Only what is soft deleted.")
NORMALIZE: Final = Parameter("normalize", bool, False, "Bring the schema into its normal form.")
FORMAT: Final = Parameter(
    "format",
    str,
    "",
    "`serialized`: the descriptor of a Protobuf file in base64; `ignore_extensions`: a Protobuf"
    " file without extensions; `resolved`: an Avro schema without references.",
)
FIND_TAGS: Final = Parameter(
    "findTags",
    doc="Also the inline tags with these names and where they are; `*` is any.",
    many=True,
)
REFERENCE_FORMAT: Final = Parameter(
    "referenceFormat", str, "", "`qualified`: references with their contexts."
)
OFFSET: Final = Parameter("offset", int, 0, "How many to leave out at the beginning.")
LIMIT: Final = Parameter("limit", int, -1, "How many to return; 0 and less is all.")
PERMANENT: Final = Parameter("permanent", bool, False, "Delete for good what is soft deleted.")
TO_GLOBAL: Final = Parameter(
    "defaultToGlobal", bool, False, "Return what holds for the subject, if nothing is set for it."
)
MAX_VERSION: Final = 2**31 - 1


def subject_of(request: Request) -> str:
    """Returns the subject that the path names."""
    return normal(str(request.path_params["subject"]))


def version_number(text: str) -> int:
    """Returns a version of a path: a number, or -1 for the latest."""
    if text.lower() == "latest":
        return LATEST
    try:
        number = int(text)
    except ValueError:
        raise errors.invalid_version(text[:100]) from None
    if number != LATEST and not 1 <= number <= MAX_VERSION:
        raise errors.invalid_version(text[:100])
    return number


def part_of(items: Iterable[T], query: Mapping[str, Any]) -> list[T]:
    """Returns the items that `offset` and `limit` choose."""
    offset, limit = query["offset"], query["limit"]
    if offset < 0:
        raise Problem(400, f"offset is 0 or more, not {offset}")
    offset, limit = min(offset, MAX_VERSION), min(limit, MAX_VERSION)
    return list(islice(items, offset, None if limit <= 0 else offset + limit))


def page(description: str = "The answer.") -> dict[int, str]:
    """Returns the answers of an endpoint that finds what it is asked for or does not."""
    return {
        200: description,
        400: "A parameter is wrong.",
        404: "40401: no such subject. 40402: no such version. 40403: no such schema.",
        422: "42201: the schema is invalid. 42202: the version is invalid.",
        500: "50001: the brokers failed.",
    }


def change(description: str = "The answer.") -> dict[int, str]:
    """Returns the answers of an endpoint that changes something."""
    return page(description) | {
        409: "The schema is incompatible with an earlier one.",
        422: "42201: invalid schema. 42202: invalid version. 42203: invalid level. 42204: invalid"
        " mode. 42205: not permitted. 42206: something refers to it. 42208: invalid subject.",
        500: "50001: the brokers failed. 50002: it timed out. 50004: there is no primary.",
    }
