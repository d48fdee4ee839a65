"""The audit log: who did what, and what was denied, as the brokers write it to a topic.

The topic is read with the rights of the user, so who may not READ it sees nothing of it. The fields
of the form become a filter expression over the events, the same that the page of messages has.
"""

from typing import Any, Final

from starlette.responses import Response

from odradek.client.admin.config_types import ConfigResource, ConfigType
from odradek.client.cluster_view import Topic
from odradek.client.errors import ClientError
from odradek.console.asking import BadForm, Form, PageRequest, Pages
from odradek.console.pages.messages import places_of, places_text
from odradek.console.records.decoding import Decoder
from odradek.console.records.expression import BadExpression, Filter
from odradek.console.records.reading import Found, Wanted, read_records
from odradek.console.times import time_ms
from odradek.protocol.errors import KafkaError
from odradek.web.endpoints import Endpoint

_SINK: Final = "odradek.audit.sink"
_TOPIC: Final = "odradek.audit.topic"
_USUAL: Final = "odradek-audit"
_RESULTS: Final = {
    "": "any",
    "denied": "denied",
    "refused": "denied or failed",
    "success": "done or allowed",
}
_EVENTS: Final = {
    "": "all events",
    "authorization": "permissions",
    "authentication": "log-ins",
    "change": "changes",
    "dropped": "gaps",
}
_STARTS: Final = {"newest": "Newest first", "time": "From a time", "live": "Live"}
_DONE: Final = ("success", "allowed", "NONE")
_LIMIT: Final = 100
_MAX_FIELD: Final = 300


class AuditPages(Pages):
    def endpoints(self) -> list[Endpoint]:
        return [self.shows("/audit", self._audit, "Who did what.")]

    async def _audit(self, asked: PageRequest) -> Response:
        name, sink = await _where(asked)
        context: dict[str, Any] = {
            "topic": name, "sink": sink, "is_there": False, "fields": dict(asked.query.fields),
            "results": _RESULTS, "events": _EVENTS, "starts": _STARTS, "found": None,
            "start": asked.query.text("start", "newest"), "problem": "", "next_url": "",
            "expression": "",
        }  # fmt: skip
        described = (await asked.admin.describe_topics([name]))[name]
        if isinstance(described, KafkaError):
            return asked.page("audit.html", "audit", **context)
        context["is_there"] = True
        try:
            context["expression"] = expression(asked.query)
            if context["start"] != "live":
                found = await _read(asked, described, context["expression"])
                context["found"] = found
                if found.next_places:
                    fields = dict(asked.query.fields)
                    fields["places"] = places_text(found.next_places)
                    context["next_url"] = asked.url("audit", **fields)
        except (BadForm, BadExpression) as error:
            context["problem"] = str(error)
        return asked.page("audit.html", "audit", 400 if context["problem"] else 200, **context)


async def _where(asked: PageRequest) -> tuple[str, str]:
    """Returns the topic of the audit log, and where the brokers write it: `none`, `file` or
    `topic`; nothing if they do not say."""
    try:
        brokers = (await asked.admin.describe_cluster()).brokers
        resources = [ConfigResource(ConfigType.BROKER, str(broker.id)) for broker in brokers[:1]]
        answers = await asked.admin.describe_configs(resources, [_SINK, _TOPIC])
    except (KafkaError, ClientError):
        return _USUAL, ""
    for entries in answers.values():
        if not isinstance(entries, KafkaError) and _SINK in entries:
            topic = entries[_TOPIC].value if _TOPIC in entries else None
            return topic or _USUAL, entries[_SINK].value or ""
    return _USUAL, ""


async def _read(asked: PageRequest, topic: Topic, text: str) -> Found:
    query = asked.query
    timestamp_ms = time_ms(query.text("time")) if query.text("start") == "time" else None
    wanted = Wanted(
        (), timestamp_ms is None, None, timestamp_ms, places_of(query.text("places")), _LIMIT,
        query.text("q"), Filter(text) if text else None,
    )  # fmt: skip
    decoder = Decoder(
        asked.cluster.formats.of(asked.clients), asked.cluster.masks(topic.name), {"value": "json"}
    )
    async with asked.clients.reader() as reader:
        return await read_records(asked.admin, reader, topic, wanted, decoder)


def expression(form: Form) -> str:
    """Returns the filter that the fields of the form ask for; nothing for everything."""
    parts = []
    principal = _given(form, "principal", "Principal")
    if principal:
        whole = principal if ":" in principal else f"User:{principal}"
        parts.append(_matches("principal", whole))
    if operation := _given(form, "operation", "Operation").lower():
        text = _quoted(operation)
        parts.append(f"(lower(value.operation) == {text} or lower(value.api) == {text})")
    if resource := _given(form, "resource", "Resource"):
        parts.append(_matches("resource", resource))
    event = form.text("event")
    if event not in _EVENTS:
        raise BadForm("Event: choose one")
    if event:
        parts.append(f"value.event == {_quoted(event)}")
    result = form.text("result")
    if result not in _RESULTS:
        raise BadForm("Result: choose one")
    done = f"value.result in [{', '.join(map(_quoted, _DONE))}]"
    if result == "denied":
        parts.append('value.result == "denied"')
    elif result == "success":
        parts.append(done)
    elif result == "refused":
        parts.append(f"not {done} and value.result != None")
    return " and ".join(parts)


def _given(form: Form, name: str, label: str) -> str:
    text = form.text(name)
    if len(text) > _MAX_FIELD:
        raise BadForm(f"{label}: at most {_MAX_FIELD} characters")
    return text


def _matches(field: str, text: str) -> str:
    if "*" in text:
        return f"like(value.{field}, {_quoted(text)})"
    return f"value.{field} == {_quoted(text)}"


def _quoted(text: str) -> str:
    """Returns a text as a filter has it."""
    return repr(text)
