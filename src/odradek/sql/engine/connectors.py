"""CREATE, DROP, SHOW and DESCRIBE CONNECTOR: Kafka Connect's REST interface (`ksql.connect.url`).

Connect is asked with the log-in of who asks, so it decides who may change connectors. Where callers
do not log in, the user of the URL is shown, if it has one.
"""

import base64
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import msgspec

from odradek.services.forwarding import Answer, Forwarder, Unreachable
from odradek.services.identity import authorization_of
from odradek.sql.engine.access import Access
from odradek.sql.engine.entities import Entity, entity
from odradek.sql.errors import Forbidden, Invalid, Refused
from odradek.sql.language import statements as s

_FORBIDDEN: Final = (401, 403)
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
Statement = s.CreateConnector | s.DropConnector | s.DescribeConnector | s.Show
KINDS: Final = (s.CreateConnector, s.DropConnector, s.DescribeConnector)


class Connectors:
    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        """`url` is where Connect listens, or empty."""
        parts = urlsplit(url)
        self._url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))
        self._own = ""
        if parts.username:
            self._own = _basic(unquote(parts.username), unquote(parts.password or ""))
        self._forwarder = Forwarder(tls)

    def close(self) -> None:
        self._forwarder.close()

    async def answer(self, statement: Statement, access: Access) -> Entity:
        if not self._url:
            raise Refused(
                "connectors need a worker of Kafka Connect: set ksql.connect.url in the server's"
                " file", statement.place,
            )  # fmt: skip
        match statement:
            case s.CreateConnector():
                return await self._create(statement, access)
            case s.DropConnector():
                return await self._drop(statement, access)
            case s.DescribeConnector():
                return await self._describe(statement, access)
            case s.Show(what="CONNECTOR PLUGINS"):
                plugins = await self._json(statement, access, "GET", "/connector-plugins")
                return entity("connector_plugins_list", statement.text, connectorsPlugins=plugins)
        return await self._show(statement, access)

    async def _create(self, statement: s.CreateConnector, access: Access) -> Entity:
        config = {name: _text(value) for name, value in statement.properties.items()}
        if statement.if_not_exists:
            names = await self._json(statement, access, "GET", "/connectors")
            if statement.name in names:
                message = f"Connector {statement.name} already exists"
                return entity("warning_entity", statement.text, message=message)
        body = {"name": statement.name, "config": config}
        answer = await self._send(statement, access, "POST", "/connectors", body)
        if answer.status == _CONFLICT:
            raise Invalid(f"Connector {statement.name} already exists", statement.place)
        info = _content(answer, statement)
        # Connect learns the kind from the class, which CREATE SOURCE or SINK has to agree with.
        kind = str(info.get("type", statement.kind)).upper()
        if kind not in (statement.kind, "UNKNOWN"):
            await self._send(statement, access, "DELETE", _path(statement.name))
            raise Invalid(
                f"{statement.name} is a {kind} connector: write CREATE {kind} CONNECTOR",
                statement.place,
            )
        return entity("connector_info", statement.text, info=info)

    async def _drop(self, statement: s.DropConnector, access: Access) -> Entity:
        answer = await self._send(statement, access, "DELETE", _path(statement.name))
        if answer.status == _NOT_FOUND:
            message = f"Connector {statement.name} does not exist."
            if not statement.if_exists:
                raise Invalid(message, statement.place)
            return entity("warning_entity", statement.text, message=message)
        _content(answer, statement)
        return entity("drop_connector", statement.text, connectorName=statement.name)

    async def _describe(self, statement: s.DescribeConnector, access: Access) -> Entity:
        path = _path(statement.name)
        info = await self._json(statement, access, "GET", path)
        status = await self._json(statement, access, "GET", f"{path}/status")
        topics = await self._json(statement, access, "GET", f"{path}/topics")
        return entity(
            "connector_description", statement.text,
            connectorClass=info["config"].get("connector.class", ""), status=status, sources=[],
            topics=topics.get(statement.name, {}).get("topics", []),
        )  # fmt: skip

    async def _show(self, statement: s.Statement, access: Access) -> Entity:
        assert isinstance(statement, s.Show)
        found = await self._json(statement, access, "GET", "/connectors?expand=info&expand=status")
        connectors = []
        for name, one in sorted(found.items()):
            kind = one["info"].get("type", "unknown")
            if statement.connector_kind in (None, str(kind).upper()):
                status = one["status"]
                running = sum(task["state"] == "RUNNING" for task in status["tasks"])
                state = status["connector"]["state"]
                shown = f"{state} ({running}/{len(status['tasks'])} tasks RUNNING)"
                connectors.append({
                    "name": name, "type": kind, "state": shown,
                    "className": one["info"]["config"].get("connector.class", ""),
                })  # fmt: skip
        return entity("connector_list", statement.text, connectors=connectors)

    # Asking Connect

    async def _json(self, statement: s.Statement, access: Access, method: str, path: str) -> Any:
        return _content(await self._send(statement, access, method, path), statement)

    async def _send(
        self, statement: s.Statement, access: Access, method: str, path: str,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:  # fmt: skip
        headers = {"accept": "application/json", "content-type": "application/json"}
        log_in = authorization_of(access.caller) or self._own
        if log_in:
            headers["authorization"] = log_in
        data = b"" if body is None else msgspec.json.encode(body)
        try:
            return await self._forwarder.send(self._url, method, path, headers, data)
        except Unreachable as error:
            raise Invalid(
                f"Kafka Connect at {self._url} does not answer: {error}", statement.place
            ) from None


def _content(answer: Answer, statement: s.Statement) -> Any:
    if answer.status < 400:
        return msgspec.json.decode(answer.body) if answer.body else {}
    try:
        message = str(msgspec.json.decode(answer.body)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        message = f"Kafka Connect answered with status {answer.status}"
    if answer.status in _FORBIDDEN:
        raise Forbidden(message, statement.place)
    raise Invalid(message, statement.place)


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


def _text(value: Any) -> str | None:
    """Returns a property as Connect has them: texts."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
