"""The `error_code` of answers, with ksqlDB's meanings."""

from typing import Final

BAD_REQUEST: Final = 40000
BAD_STATEMENT: Final = 40001
QUERY_ENDPOINT: Final = 40002
TOO_MANY_PUSH_QUERIES: Final = 40003
FORBIDDEN: Final = 40300
FORBIDDEN_BY_KAFKA: Final = 40301
NOT_FOUND: Final = 40400
ASSERTION_FAILED: Final = 41700
SERVER_ERROR: Final = 50000
COMMAND_TIMED_OUT: Final = 50301
NOT_READY: Final = 50302
