"""The work of `odradek sql`: sends statements to the server and shows its answers.

SET and DEFINE hold for the shell: they are sent with each statement. Queries are asked by /query,
which every ksqlDB has over HTTP/1.1; rows are shown as they come.
"""

import http.client
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import table
from odradek.world.installing import install_line

_KSQL: Final = "application/vnd.ksql.v1+json"
_PROMPT: Final = "sql> "
_MORE: Final = "...> "
_WORDS: Final = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "EMIT CHANGES", "CREATE STREAM", "CREATE TABLE",
    "INSERT INTO", "VALUES", "SHOW STREAMS", "SHOW TABLES", "SHOW QUERIES", "SHOW TOPICS",
    "DESCRIBE", "EXPLAIN", "PRINT", "DROP STREAM", "DROP TABLE", "TERMINATE", "SET", "DEFINE",
)  # fmt: skip


class Shell:
    def __init__(self, server: str, *, as_json: bool) -> None:
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise CommandFailed(f"{server!r} is no URL such as http://127.0.0.1:8088")
        self._server = server
        self._parts = parts
        self._as_json = as_json
        self._properties: dict[str, str] = {}
        self._variables: dict[str, str] = {}

    # Reading statements

    def interact(self) -> int:
        """Reads statements from the terminal until the input ends."""
        self._complete()
        info = self._json("GET", "/info", None)["KsqlServerInfo"]
        print(f"{self._server}: version {info['version']}, service {info['ksqlServiceId']}")
        text = ""
        while True:
            try:
                text += input(_MORE if text else _PROMPT) + "\n"
            except EOFError:
                print()
                return 0
            except KeyboardInterrupt:
                print()
                text = ""
                continue
            if text.strip().lower() in ("exit", "quit"):
                return 0
            if text.rstrip().endswith(";"):
                try:
                    self.run_text(text)
                except CommandFailed as error:
                    print(error)
                text = ""
            elif not text.strip():
                text = ""

    def _complete(self) -> None:
        try:
            import readline
        except ImportError:
            return

        def word(text: str, place: int) -> str | None:
            found = [one for one in _WORDS if one.startswith(text.upper())]
            return found[place] if text and place < len(found) else None

        readline.set_completer(word)
        readline.parse_and_bind("tab: complete")

    def run_text(self, text: str) -> int:
        """Runs the statements of a text. Ends the command for the first that fails."""
        try:
            from odradek.sql.errors import SqlError
            from odradek.sql.language.parser import split
        except ImportError as error:
            raise CommandFailed(f"{error.name} is not installed: {install_line('sql')}") from None
        try:
            parts = split(text)
        except SqlError as error:
            raise CommandFailed(str(error)) from None
        for part in parts:
            words = [token.text.upper() for token in part.tokens[:1]]
            if words[0] in ("SELECT", "PRINT"):
                self._query(part.text)
            elif words[0] in ("SET", "UNSET", "DEFINE", "UNDEFINE"):
                self._note(part.text)
            else:
                self._statement(part.text)
        return 0

    def _note(self, text: str) -> None:
        from odradek.sql.engine.sessions import Session
        from odradek.sql.errors import SqlError
        from odradek.sql.language.parser import parse

        try:
            session = Session(self._properties, self._variables)
            session.note(parse(text))
        except SqlError as error:
            raise CommandFailed(str(error)) from None
        for warning in session.not_obeyed():
            print(f"odradek sql: {warning['message']}", file=sys.stderr)

    # Asking the server

    def _connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else None
        default = 443 if kind else 80
        host, port = self._parts.hostname or "", self._parts.port or default
        return (kind or http.client.HTTPConnection)(host, port)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        connection = self._connection()
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": _KSQL, "Accept": _KSQL}
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise CommandFailed(
                f"the SQL server at {self._server} does not answer ({error}): start it with"
                " odradek sql-server, or name another by --server"
            ) from None
        if answer.status >= 400:
            raise CommandFailed(_reason(answer.read(), answer.status))
        return answer

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        return json.loads(self._ask(method, path, body).read())

    def _request(self, text: str) -> dict[str, Any]:
        return {
            "ksql": f"{text};",
            "streamsProperties": self._properties,
            "sessionVariables": self._variables,
        }

    def _statement(self, text: str) -> None:
        for entity in self._json("POST", "/ksql", self._request(text)):
            print(json.dumps(entity) if self._as_json else shown_entity(entity))

    def _query(self, text: str) -> None:
        answer = self._ask("POST", "/query", self._request(text))
        try:
            for line in answer:
                self._show_line(line.decode().strip())
        except KeyboardInterrupt:
            print()
        finally:
            answer.close()

    def _show_line(self, line: str) -> None:
        if line.startswith("rowtime:"):
            print(line, flush=True)
            return
        # A line is an element of an array that goes on: [{...}, and {...}, and {...}]
        line = line.lstrip("[,").strip()
        if not line.startswith("{"):
            return
        content, _ = json.JSONDecoder(parse_float=_Number).raw_decode(line)
        if self._as_json:
            print(json.dumps(content), flush=True)
        elif "header" in content:
            print(content["header"]["schema"], flush=True)
        elif "row" in content:
            mark = "  (deleted)" if content["row"].get("tombstone") else ""
            print(" | ".join(map(_cell, content["row"]["columns"])) + mark, flush=True)
        elif "finalMessage" in content:
            print(content["finalMessage"])
        elif "errorMessage" in content:
            raise CommandFailed(content["errorMessage"].get("message", "the query failed"))


def _reason(body: bytes, status: int) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return f"the server answered with status {status}"


class _Number(float):
    """A number that is shown as the server wrote it: a DECIMAL has its zeros, as in 2.50."""

    def __new__(cls, text: str) -> "_Number":
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, _Number):
        return value.text
    return value if isinstance(value, str) else json.dumps(value)


_LISTS: Final = {
    "streams": ("streams", ("name", "topic", "keyFormat", "valueFormat")),
    "tables": ("tables", ("name", "topic", "keyFormat", "valueFormat", "isWindowed")),
    "queries": ("queries", ("id", "state", "sinks", "queryString", "error")),
    "kafka_topics": ("topics", ("name", "replicaInfo")),
    "function_names": ("functions", ("name", "type", "category")),
    "properties": ("properties", ("name", "value")),
    "variables": ("variables", ("name", "value")),
}


def shown_entity(entity: Mapping[str, Any]) -> str:
    """Returns an answer of /ksql for people."""
    kind = entity["@type"]
    if kind == "currentStatus":
        return str(entity["commandStatus"]["message"])
    if kind in _LISTS:
        name, known = _LISTS[kind]
        columns = [one for one in known if any(one in listed for listed in entity[name])]
        rows = [[_cell(one.get(column)) for column in columns] for one in entity[name]]
        return table(columns, rows) if rows else f"there are no {name}"
    if kind == "sourceDescription":
        return "\n".join(_described(entity["sourceDescription"]))
    if kind == "queryDescription":
        return str(entity["queryDescription"]["topology"])
    content = {key: value for key, value in entity.items() if key not in ("@type", "warnings")}
    return json.dumps(content, indent=2)


def _described(source: Mapping[str, Any]) -> Iterator[str]:
    yield f"{source['type']} {source['name']}, topic {source['topic']}"
    rows = [[one["name"], _type_text(one["schema"]), one.get("type") or ""]
            for one in source["fields"]]  # fmt: skip
    yield table(["column", "type", ""], rows)
    for query in (*source["readQueries"], *source["writeQueries"]):
        yield f"{query['id']}: {query['queryString']}"


def _type_text(schema: Mapping[str, Any]) -> str:
    kind = schema["type"]
    if kind == "ARRAY":
        return f"ARRAY<{_type_text(schema['memberSchema'])}>"
    if kind == "MAP":
        return f"MAP<STRING, {_type_text(schema['memberSchema'])}>"
    if kind == "STRUCT":
        inner = (f"{one['name']} {_type_text(one['schema'])}" for one in schema["fields"])
        return f"STRUCT<{', '.join(inner)}>"
    if kind == "DECIMAL" and "parameters" in schema:
        return f"DECIMAL({schema['parameters']['precision']}, {schema['parameters']['scale']})"
    return str(kind)
