"""The events of the audit log, and how one is written: a JSON object in a line.

    {"time":"2026-11-15T05:06:52.123Z","event":"authorization","result":"denied",
     "principal":"User:ada","groups":["Group:shop"],"address":"10.0.0.7:50414","listener":"SASL_SSL",
     "clientId":"shop-1","requestId":8,"api":"Produce","operation":"Write","resourceType":"Topic",
     "resource":"orders","broker":1}

(in one line). Everything outside ASCII is escaped, so that text from clients cannot begin a line.
"""

import json
from datetime import UTC, datetime
from typing import Final, NamedTuple

from odradek.config.redaction import redact

AUTHENTICATION: Final = "authentication"
AUTHORIZATION: Final = "authorization"
CHANGE: Final = "change"


class AuditEvent(NamedTuple):
    """One event, as it is kept until it is written. It is made while a request is served, so it
    refers to what exists already and formats nothing. Long texts from clients are shortened before
    they come here: thousands of events may wait."""

    time_ms: int
    event: str
    result: str
    principal: str
    groups: tuple[str, ...]
    address: str
    port: int
    listener: str
    client_id: str | None
    request_id: int | None
    api: str
    operation: str = ""
    resource_type: str = ""
    resource: str = ""
    detail: str = ""


def encode(event: AuditEvent, broker_id: int) -> bytes:
    fields: dict[str, object] = {
        "time": shown_time(event.time_ms),
        "event": event.event,
        "result": event.result,
        "principal": event.principal,
    }
    if event.groups:
        fields["groups"] = event.groups
    fields |= {
        "address": f"{event.address}:{event.port}",
        "listener": event.listener,
        "clientId": event.client_id,
        "requestId": event.request_id,
        "api": event.api,
    }
    for name, value in (
        ("operation", event.operation),
        ("resourceType", event.resource_type),
        ("resource", event.resource),
        ("detail", event.detail),
    ):
        if value:
            fields[name] = value
    fields["broker"] = broker_id
    return _line(fields)


def encode_dropped(time_ms: int, count: int, broker_id: int) -> bytes:
    """Returns the line that stands where events are missing."""
    return _line(
        {
            "time": shown_time(time_ms),
            "event": "dropped",
            "count": count,
            "detail": "events are missing here: the audit log could not be written fast enough",
            "broker": broker_id,
        }
    )


def shown_time(time_ms: int) -> str:
    second, milliseconds = divmod(time_ms, 1000)
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def _line(fields: dict[str, object]) -> bytes:
    return redact(json.dumps(fields, separators=(",", ":"))).encode()
