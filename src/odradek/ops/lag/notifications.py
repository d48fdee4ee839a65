"""Says when the status of a group has changed: to a webhook and by e-mail.

`Changes` decides what is news, as a pure state machine. Senders bring it to people. They do
blocking work in a thread, and what cannot be delivered after some attempts is told to `say` and
dropped.
"""

import asyncio
import json
import smtplib
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from string import Template
from typing import Final, Protocol
from urllib.parse import urlsplit

from odradek.ops.lag.evaluation import GroupStatus, Status

TIMEOUT_S: Final = 10.0
_ATTEMPTS: Final = 3
_AGAIN_S: Final = 2.0

MAIL: Final = """\
Subject: [odradek] group $group is $status

Group $group of cluster $cluster was $previous and is $status since $time.
It is $total_lag records behind. Its worst partition is $worst.

$partitions
"""

Say = Callable[[str], None]


class BadTemplate(ValueError):
    """A template that cannot be used; the message says why."""


class NotDelivered(Exception):
    """A notification that somebody did not take; the message says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """A group whose status is not what it was."""

    cluster: str
    previous: Status
    now: GroupStatus
    at_ms: int

    def values(self) -> dict[str, str]:
        """Returns what templates may name."""
        worst = self.now.worst
        troubled = [
            f"{judged.partition} {judged.status.name} {judged.current_lag}"
            for judged in self.now.partitions
            if judged.status is not Status.OK
        ]
        moment = datetime.fromtimestamp(self.at_ms / 1000, UTC)
        return {
            "cluster": self.cluster,
            "group": self.now.group,
            "status": self.now.status.name,
            "previous": self.previous.name,
            "total_lag": f"{self.now.total_lag}",
            "complete": f"{self.now.complete:g}",
            "worst": "-"
            if worst is None
            else f"{worst.partition.topic}-{worst.partition.partition} {worst.status.name}",
            "partitions": "\n".join(troubled),
            "time": moment.isoformat(timespec="seconds").replace("+00:00", "Z"),
        }


NAMES: Final = tuple(Change("", Status.OK, GroupStatus("", Status.OK, 0.0), 0).values())


@dataclass(slots=True)
class _Seen:
    reported: Status = Status.OK
    candidate: Status = Status.OK
    times: int = 0


class Changes:
    """Finds changes of status that last: a new status counts when it was the same `confirm` times.
    A group is taken to be OK at first, so one that is fine from the beginning is no news."""

    def __init__(self, cluster: str, confirm: int = 3) -> None:
        self._cluster = cluster
        self._confirm = confirm
        self._seen: dict[str, _Seen] = {}

    def update(self, statuses: Iterable[GroupStatus], at_ms: int) -> list[Change]:
        """Takes the statuses of all groups, and returns what is news. Groups that are not among
        them any more are forgotten."""
        changes = []
        current: dict[str, _Seen] = {}
        for status in statuses:
            seen = current[status.group] = self._seen.get(status.group) or _Seen()
            if status.status is seen.reported:
                seen.times = 0
                continue
            seen.times = seen.times + 1 if status.status is seen.candidate else 1
            seen.candidate = status.status
            if seen.times >= self._confirm:
                changes.append(Change(self._cluster, seen.reported, status, at_ms))
                seen.reported, seen.times = status.status, 0
        self._seen = current
        return changes


def template(text: str, source: str) -> Template:
    """Returns a template. Raises `BadTemplate` if it names what there is not."""
    made = Template(text)
    try:
        unknown = sorted(set(made.get_identifiers()) - set(NAMES))
    except ValueError as error:
        raise BadTemplate(f"{source}: {error}; write $$ for a dollar sign") from None
    if unknown or not made.is_valid():
        what = f"there is no ${unknown[0]}" if unknown else "a $ stands alone; write $$"
        raise BadTemplate(f"{source}: {what}; there are ${', $'.join(NAMES)}")
    return made


class Sender(Protocol):
    """A way to bring a change to somebody. `send` blocks, and raises `NotDelivered`."""

    def send(self, change: Change) -> None: ...


class Webhook:
    """POSTs each change. In a template, values are escaped as in a JSON string."""

    def __init__(self, url: str, body: Template | None = None) -> None:
        self.url = url
        self._parts = urlsplit(url)
        self._body = body
        if self._parts.scheme not in {"http", "https"} or not self._parts.hostname:
            raise BadTemplate(f"{url!r} is not a URL as https://host/path")

    def body(self, change: Change) -> bytes:
        values = change.values()
        if self._body is None:
            return json.dumps(values).encode()
        escaped = {name: json.dumps(value)[1:-1] for name, value in values.items()}
        return self._body.substitute(escaped).encode()

    def send(self, change: Change) -> None:
        parts = self._parts
        make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = make(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            headers = {"content-type": "application/json"}
            connection.request("POST", path, self.body(change), headers)
            response = connection.getresponse()
            response.read()
        except (OSError, HTTPException) as error:
            raise NotDelivered(f"webhook {parts.hostname}: {error}") from error
        finally:
            connection.close()
        if response.status >= 300:
            raise NotDelivered(f"webhook {parts.hostname} answered {response.status}")


@dataclass(frozen=True, slots=True)
class MailServer:
    """An SMTP server. With a user the connection must become TLS by STARTTLS first."""

    host: str
    port: int = 25
    user: str | None = None
    password: str = ""


class Mail:
    """Sends each change by e-mail. The template begins with a line `Subject: ...`."""

    def __init__(
        self, server: MailServer, sender: str, to: Iterable[str], text: Template | None = None
    ) -> None:
        self._server = server
        self._sender = sender
        self._to = list(to)
        self._text = text or Template(MAIL)
        if not self._text.template.startswith("Subject:"):
            raise BadTemplate("the template of e-mails must begin with a line `Subject: ...`")

    def message(self, change: Change) -> EmailMessage:
        first, _, rest = self._text.template.partition("\n")
        values = change.values()
        subject = Template(first.removeprefix("Subject:").strip()).substitute(values)
        message = EmailMessage()
        message["Subject"] = " ".join(subject.split())
        message["From"] = self._sender
        message["To"] = ", ".join(self._to)
        message.set_content(Template(rest.lstrip("\n")).substitute(values))
        return message

    def send(self, change: Change) -> None:
        server = self._server
        try:
            with smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_S) as connection:
                if server.user is not None:
                    connection.starttls(context=ssl.create_default_context())
                    connection.login(server.user, server.password)
                connection.send_message(self.message(change))
        except (OSError, smtplib.SMTPException) as error:
            raise NotDelivered(f"mail server {server.host}: {error}") from error


async def deliver(senders: Iterable[Sender], change: Change, say: Say) -> None:
    """Brings a change to everybody; tries again where it is not taken."""
    await asyncio.gather(*(_deliver(sender, change, say) for sender in senders))


async def _deliver(sender: Sender, change: Change, say: Say) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            await asyncio.to_thread(sender.send, change)
        except NotDelivered as error:
            if attempt == _ATTEMPTS:
                say(f"group {change.now.group} is {change.now.status.name}, not told: {error}")
                return
            await asyncio.sleep(_AGAIN_S * attempt)
        else:
            return
