"""Reads the JSON body of a request into a type, and says what is wrong with it."""

import re
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request

from odradek.web.problems import Problem

T = TypeVar("T")

# As with {"schema": {"type": "string"}}, where the schema is to be text.
_TEXT_EXPECTED: Final = re.compile(r"Expected `str[^`]*`, got `(object|array)`")
_MISSING: Final = "Object missing required field"
_UNKNOWN: Final = "Object contains unknown field"


async def read_body(request: Request, kind: type[T], *, missing: int = 422) -> T:
    """Returns the body of a request. See `decode_json`. Raises 422 if there is none."""
    body = await request.body()
    if not body.strip():
        raise Problem(422, "the body of the request is empty; JSON is required")
    return decode_json(body, kind, missing=missing)


def decode_json(body: bytes, kind: type[T], *, missing: int = 422) -> T:
    """Returns JSON as a type. Raises 400 for what is not JSON or has wrong types, 422 for a field
    that is unknown, and `missing` for one that is missing, as Confluent's services do."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        words = str(error)
        status = missing if words.startswith(_MISSING) else 400
        status = 422 if words.startswith(_UNKNOWN) else status
        hint = "; write it as text in quotation marks" if _TEXT_EXPECTED.match(str(error)) else ""
        raise Problem(status, f"the body is wrong: {error}{hint}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Problem(400, "the body is nested too deeply") from None
