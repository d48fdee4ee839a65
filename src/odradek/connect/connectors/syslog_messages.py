"""Syslog messages as text and as fields: RFC 5424, and RFC 3164 which came before it.

What is neither is kept as it is: nothing that a device sends is lost because of its form.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field

_PRIORITY: Final = re.compile(r"<(\d{1,3})>")
_RFC5424: Final = re.compile(r"(\d{1,3}) (\S+) (\S+) (\S+) (\S+) (\S+) ?", re.ASCII)
_RFC3164: Final = re.compile(
    r"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\S+) (?:([^\s:\[]+)(?:\[([^\]]*)\])?: ?)?"
)
_ELEMENT: Final = re.compile(r'\[([^\s\]="]+)((?: [^\s\]="]+="(?:[^"\\\]]|\\.)*")*)\]')
_PARAMETER: Final = re.compile(r' ([^\s\]="]+)="((?:[^"\\\]]|\\.)*)"')
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_NIL: Final = "-"
# Messages without a priority are of the user level, and notices.
_DEFAULT_PRIORITY: Final = 13
_DAY: Final = timedelta(days=1)

SCHEMA: Final = schemas.struct(
    Field("type", schemas.STRING),
    Field("facility", schemas.INT32),
    Field("severity", schemas.INT32),
    Field("version", schemas.INT32.optional()),
    Field("timestamp", schemas.timestamp(is_optional=True)),
    Field("host", schemas.OPTIONAL_STRING),
    Field("appName", schemas.OPTIONAL_STRING),
    Field("processId", schemas.OPTIONAL_STRING),
    Field("messageId", schemas.OPTIONAL_STRING),
    Field(
        "structuredData",
        schemas.map_of(
            schemas.STRING, schemas.map_of(schemas.STRING, schemas.STRING), is_optional=True
        ),
    ),
    Field("message", schemas.OPTIONAL_STRING),
    Field("rawMessage", schemas.STRING),
    Field("remoteAddress", schemas.OPTIONAL_STRING),
    name="odradek.connect.syslog.Message",
)


def parse(text: str, remote_address: str | None, now: datetime) -> dict[str, Any]:
    """Returns the fields of a message. `now` gives the year, which RFC 3164 does not have."""
    raw = text
    priority, found = _DEFAULT_PRIORITY, _PRIORITY.match(text)
    if found is not None and int(found[1]) < 24 * 8:
        priority, text = int(found[1]), text[found.end() :]
    fields = _rfc5424(text) if found is not None else None
    fields = fields or _rfc3164(text, now) or {"type": "UNKNOWN", "message": text}
    empty = dict.fromkeys(part.name for part in SCHEMA.fields)
    return {
        **empty,
        **fields,
        "facility": priority >> 3,
        "severity": priority & 7,
        "rawMessage": raw,
        "remoteAddress": remote_address,
    }


def _rfc5424(text: str) -> dict[str, Any] | None:
    found = _RFC5424.match(text)
    if found is None:
        return None
    version, stamp, host, app, process, message_id = found.groups()
    data: dict[str, dict[str, str]] = {}
    position = found.end()
    if text[position : position + 1] == _NIL:
        position += 1
    else:
        start = position
        while (element := _ELEMENT.match(text, position)) is not None:
            data[element[1]] = {
                name: re.sub(r'\\(["\\\]])', r"\1", value)
                for name, value in _PARAMETER.findall(element[2])
            }
            position = element.end()
        if position == start:
            return None
    message = text[position:].removeprefix(" ").removeprefix("\ufeff")
    moment = _moment(stamp)
    if stamp != _NIL and moment is None:
        return None
    return {
        "type": "RFC5424",
        "version": int(version),
        "timestamp": moment,
        "host": _given(host),
        "appName": _given(app),
        "processId": _given(process),
        "messageId": _given(message_id),
        "structuredData": data or None,
        "message": message,
    }


def _rfc3164(text: str, now: datetime) -> dict[str, Any] | None:
    found = _RFC3164.match(text)
    if found is None or found[1] not in _MONTHS:
        return None
    month, day, hour, minute, second, host, tag, process = found.groups()
    try:
        moment = datetime(
            now.year, _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=UTC
        )
        # In January, a message of December is one of last year.
        if moment - now > _DAY:
            moment = moment.replace(year=now.year - 1)
    except ValueError:
        return None
    return {
        "type": "RFC3164",
        "timestamp": moment,
        "host": host,
        "appName": tag,
        "processId": process,
        "message": text[found.end() :],
    }


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _given(text: str) -> str | None:
    return None if text == _NIL else text
