"""What requests say. Properties and variables may be of any JSON type; they are texts here."""

from typing import Any

import msgspec

from odradek.sql.api.codes import BAD_REQUEST
from odradek.web.problems import Problem


class KsqlRequest(msgspec.Struct):
    ksql: str = ""
    streamsProperties: dict[str, Any] = {}  # noqa: N815 - as ksqlDB names it
    sessionVariables: dict[str, Any] = {}  # noqa: N815
    commandSequenceNumber: int | None = None  # noqa: N815

    def given(self) -> tuple[dict[str, str], dict[str, str]]:
        """Returns the properties and the variables."""
        return texts(self.streamsProperties), texts(self.sessionVariables)


class QueryStreamRequest(msgspec.Struct):
    sql: str = ""
    properties: dict[str, Any] = {}
    streamsProperties: dict[str, Any] = {}  # noqa: N815
    sessionVariables: dict[str, Any] = {}  # noqa: N815

    def given(self) -> tuple[dict[str, str], dict[str, str]]:
        """Returns the properties and the variables."""
        properties = {**self.streamsProperties, **self.properties}
        return texts(properties), texts(self.sessionVariables)


class CloseQueryRequest(msgspec.Struct):
    queryId: str  # noqa: N815


class TerminateRequest(msgspec.Struct):
    deleteTopicList: list[str] = []  # noqa: N815


def texts(given: dict[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for name, value in given.items()}  # fmt: skip


def read(body: bytes, kind: Any) -> Any:
    """Returns the body of a request, whose media type may be ksqlDB's own."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, f"the body is wrong: {error}", code=BAD_REQUEST) from None
    except RecursionError:
        raise Problem(400, "the body is nested too deeply", code=BAD_REQUEST) from None
