"""The answer about a statement or a query that cannot be carried out."""

import msgspec
from starlette.responses import Response

from odradek.protocol.errors import AuthorizationError
from odradek.sql.api.codes import (
    ASSERTION_FAILED,
    BAD_STATEMENT,
    FORBIDDEN_BY_KAFKA,
    QUERY_ENDPOINT,
)
from odradek.sql.api.media import KSQL
from odradek.sql.engine.engine import StatementFailed
from odradek.sql.errors import AssertionDoesNotHold, Forbidden, QueryEndpoint


def failed(error: StatementFailed) -> Response:
    """Returns the answer about a statement that could not be carried out."""
    status, code = 400, BAD_STATEMENT
    if isinstance(error.cause, QueryEndpoint):
        code = QUERY_ENDPOINT
    elif isinstance(error.cause, Forbidden | AuthorizationError):
        status, code = 403, FORBIDDEN_BY_KAFKA
    elif isinstance(error.cause, AssertionDoesNotHold):
        status, code = 417, ASSERTION_FAILED
    content = {
        "@type": "statement_error",
        "error_code": code,
        "message": error.message,
        "statementText": f"{error.statement};",
        "entities": error.entities,
    }
    return Response(msgspec.json.encode(content), status, media_type=KSQL)
