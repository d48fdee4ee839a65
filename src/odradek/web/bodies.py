"""Reads the JSON body of a request into a type, and says what is wrong with it."""

import re
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request

from odradek.web.problems import Problem

T = TypeVar("T")

# As with {"schema": {"type": "string"}}, where the schema is to be text.
_TEXT_EXPECTED: Final = re.compile(r"Expected `str[^`]*`, got `(object|array)`")
_UNPROCESSABLE: Final = ("Object missing required field", "Object contains unknown field")


async def read_body(request: Request, kind: type[T]) -> T:
    """Returns the body of a request. See `decode_json`. Raises 422 if there is none."""
    body = await request.body()
    if not body.strip():
        raise Problem(422, "the body of the request is empty; JSON is required")
    return decode_json(body, kind)


def decode_json(body: bytes, kind: type[T]) -> T:
    """Returns JSON as a type. Raises 400 for what is not JSON or has wrong types, and 422 for a
    field that is missing or unknown, as Confluent's services do."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        status = 422 if str(error).startswith(_UNPROCESSABLE) else 400
        hint = "; write it as text in quotation marks" if _TEXT_EXPECTED.match(str(error)) else ""
        raise Problem(status, f"the body is wrong: {error}{hint}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Problem(400, "the body is nested too deeply") from None
