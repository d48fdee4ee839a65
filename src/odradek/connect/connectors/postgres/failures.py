"""What the errors of PostgreSQL mean for a connector: whether to try again, and what to type."""

from typing import Final

from odradek.connect.errors import ConnectError, DataError, Unavailable

# Classes of SQLSTATE that pass by themselves: connection exceptions, lack of resources, an
# administrator's intervention, a serialization failure or a deadlock.
_PASSING: Final = ("08", "53", "57", "40")
_IN_USE: Final = "55006"
_QUERY_CANCELED: Final = "57014"
_NO_PRIVILEGE: Final = "42501"

_ADVICE: Final = (
    (
        "no pg_hba.conf entry",
        (
            "add a line to pg_hba.conf, such as `host all all 10.0.0.0/8 scram-sha-256`, and reload"
            " the server: SELECT pg_reload_conf()"
        ),
    ),
    ("password authentication failed", "check database.user and database.password"),
    ("no password supplied", "set database.password"),
    ("does not exist", "check database.dbname, database.user and the names of the lists"),
    (
        "logical decoding requires wal_level",
        ("set wal_level = logical (ALTER SYSTEM SET wal_level = logical) and restart the server"),
    ),
    (
        "all replication slots are in use",
        (
            "raise max_replication_slots, or drop a slot that nobody reads:"
            " SELECT slot_name, active FROM pg_replication_slots"
        ),
    ),
    ("must be superuser or replication role", "run: ALTER ROLE ... REPLICATION"),
    ("permission denied to use replication slots", "run: ALTER ROLE ... REPLICATION"),
    ("permission denied to start WAL sender", "run: ALTER ROLE ... REPLICATION"),
    (
        "must be superuser to create FOR ALL TABLES publication",
        "let a superuser create the publication, or set publication.autocreate.mode=filtered",
    ),
    ("must be owner of table", "let the owner create the publication: CREATE PUBLICATION ..."),
    ("permission denied for database", "run: GRANT CREATE ON DATABASE ... TO the user"),
    ("permission denied for schema", "run: GRANT USAGE ON SCHEMA ... TO the user"),
    ("permission denied for table", "run: GRANT SELECT ON TABLE ... TO the user"),
)
_NOT_THERE: Final = (
    "connection refused",
    "could not translate host name",
    "timeout expired",
    "the database system is starting up",
    "the database system is shutting down",
    "no route to host",
    "network is unreachable",
    "connection reset",
    "server closed the connection",
    "too many clients",
    "remaining connection slots",
)


def error_of(message: str, state: str | None, host: str, port: int) -> ConnectError:
    """Returns the error for a message of the server or of libpq. `state` is the SQLSTATE, if the
    server gave one."""
    text = " ".join(message.split())
    lower = text.lower()
    where = f"PostgreSQL at {host}:{port}"
    passes = (state or "")[:2] in _PASSING and state != _QUERY_CANCELED
    if passes or state == _IN_USE:
        return Unavailable(f"{where}: {text}")
    if state is None and any(sign in lower for sign in _NOT_THERE):
        return Unavailable(f"{where} does not answer: {text}")
    advice = next((advice for sign, advice in _ADVICE if sign in lower), None)
    return Refused(f"{where}: {text}" + (f" – {advice}" if advice else ""), state)


class Refused(DataError):
    """The server has refused; `state` is its SQLSTATE, if it gave one."""

    def __init__(self, message: str, state: str | None) -> None:
        super().__init__(message)
        self.state = state
