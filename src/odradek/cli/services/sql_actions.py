"""The work of `odradek sql`: sends statements to the server and shows its answers.

SET and DEFINE hold for the shell: they are sent with each statement. Queries are asked by /query,
which every ksqlDB has over HTTP/1.1; rows are shown as they come.
"""

import http.client
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from odradek.cli.http_address import HttpAddress, basic_log_in
from odradek.cli.services.sql_terminal import (
    columns_in,
    columns_of_terminal,
    fitted,
    pointing,
    prepare,
)
from odradek.tools.failures import CommandFailed
from odradek.tools.files import read_text
from odradek.tools.hints import hint_if_silent
from odradek.tools.terminal import table
from odradek.world.installing import install_line

_KSQL: Final = "application/vnd.ksql.v1+json"
_PROMPT: Final = "sql> "
_MORE: Final = "...> "


class Shell:
    def __init__(self, server: str, *, as_json: bool, ca: str | None = None) -> None:
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise CommandFailed(f"{server!r} is not a URL such as http://127.0.0.1:8088")
        self._server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._address = HttpAddress(parts, 443 if parts.scheme == "https" else 80, ca)
        self._log_in = _log_in(parts.username, parts.password)
        self._as_json = as_json
        self._properties: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        self._current = ""
        """The statement that is carried out, to point at what is wrong in it."""

    # Reading statements

    def interact(self) -> int:
        """Reads statements from the terminal until the input ends."""
        info = self._json("GET", "/info", None)["KsqlServerInfo"]
        if sys.stdin.isatty():
            print(f"{self._server}: version {info['version']}, service {info['ksqlServiceId']}")
        keep_history = prepare(self._names)
        try:
            return self._read_statements()
        finally:
            keep_history()

    def _read_statements(self) -> int:
        text = ""
        while True:
            try:
                # Statements of a file or a pipe need no prompts between their results.
                prompt = _MORE if text else _PROMPT
                text += input(prompt if sys.stdin.isatty() else "") + "\n"
            except EOFError:
                if sys.stdin.isatty():
                    print()
                return 0
            except KeyboardInterrupt:
                print()
                text = ""
                continue
            if text.strip().lower().rstrip("; ") in ("exit", "quit"):
                return 0
            if text.rstrip().endswith(";"):
                try:
                    self.run_text(text)
                except CommandFailed as error:
                    print(pointing(str(error), self._current))
                text = ""
            elif not text.strip():
                text = ""

    def _names(self) -> Iterator[str]:
        """Yields what the server has names for; nothing if it does not answer."""
        lists = {"streams": "streams", "tables": "tables", "function_names": "functions"}
        try:
            text = "SHOW STREAMS; SHOW TABLES; SHOW FUNCTIONS"
            for entity in self._json("POST", "/ksql", self._request(text)):
                for one in entity.get(lists.get(entity["@type"], ""), []):
                    yield one["name"]
        except CommandFailed:
            return

    def run_text(self, text: str) -> int:
        """Runs the statements of a text. Ends the command for the first that fails."""
        self._current = text
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
            word = part.tokens[0].text.upper()
            self._current = part.text
            if word in ("SELECT", "PRINT"):
                self._query(part.text)
            elif word in ("SET", "UNSET", "DEFINE", "UNDEFINE"):
                self._note(part.text)
            elif word == "RUN":
                self._run_script(part.text)
            else:
                self._statement(part.text)
        return 0

    def _run_script(self, text: str) -> None:
        from odradek.sql.errors import SqlError
        from odradek.sql.language.parser import parse
        from odradek.sql.language.statements import RunScript

        try:
            statement = parse(text)
        except SqlError as error:
            raise CommandFailed(str(error)) from None
        assert isinstance(statement, RunScript)
        self.run_text(read_text(statement.path))

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

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        connection = self._address.connection(None)
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": _KSQL, "Accept": _KSQL, **self._log_in}
        try:
            with hint_if_silent(self._server, "a SQL server"):
                connection.request(method, path, data, headers)
                answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise CommandFailed(
                f"the SQL server at {self._server} does not answer ({_words(error)}): start it with"
                " odradek sql-server, or name another by --server"
            ) from None
        if answer.status >= 400:
            raise CommandFailed(self._reason(answer.read(), answer.status))
        return answer

    def _reason(self, body: bytes, status: int) -> str:
        """Returns what an answer says is wrong. An answer of another kind than a SQL server's is
        called so: other services have errors with a message too."""
        try:
            answer = json.loads(body)
            if "@type" in answer or status in (401, 403):
                return str(answer["message"])
            said = f": {answer['message']}"
        except (ValueError, KeyError, TypeError):
            said = ""
        return (
            f"{self._server} answered with status {status}{said}; is it a SQL server? If not, name"
            " another by --server"
        )

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
            schema, width = content["header"]["schema"], columns_of_terminal()
            columns = columns_in(schema)
            print(schema if width is None else fitted(columns, width), flush=True)
        elif "row" in content:
            mark = "  (deleted)" if content["row"].get("tombstone") else ""
            cells = [_cell(value) for value in content["row"]["columns"]]
            width = columns_of_terminal()
            row = " | ".join(cells) if width is None else fitted(cells, width - len(mark))
            print(row + mark, flush=True)
        elif "finalMessage" in content:
            print(content["finalMessage"])
        elif "errorMessage" in content:
            raise CommandFailed(content["errorMessage"].get("message", "the query failed"))


def _log_in(user: str | None, password: str | None) -> dict[str, str]:
    """Returns the header by which a user of the URL logs in. A password that the URL has not is
    asked for."""
    if user is None:
        return {}
    if password is None:
        import getpass

        password = getpass.getpass(f"password of {unquote(user)}: ")
    return {"Authorization": basic_log_in(user, password)}


def _words(error: Exception) -> str:
    """Returns the words of an error without its number."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


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
    "kafka_topics_extended": (
        "topics",
        ("name", "replicaInfo", "consumerCount", "consumerGroupCount"),
    ),
    "connector_list": ("connectors", ("name", "type", "className", "state")),
    "connector_plugins_list": ("connectorsPlugins", ("class", "type", "version")),
    "function_names": ("functions", ("name", "type", "category")),
    "properties": ("properties", ("name", "value")),
    "variables": ("variables", ("name", "value")),
}


_SENTENCES: Final = {
    "warning_entity": "{0[message]}",
    "connector_info": "Created connector {0[info][name]}",
    "drop_connector": "Dropped connector {0[connectorName]}",
    "assert_topic": "Topic {0[topicName]} is as asserted",
    "assert_schema": "The schema is as asserted",
}


def shown_entity(entity: Mapping[str, Any]) -> str:
    """Returns an answer of /ksql for people."""
    kind = entity["@type"]
    if kind == "currentStatus":
        return str(entity["commandStatus"]["message"])
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(entity)
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


_OFFSETS: Final = ("partition", "logStartOffset", "logEndOffset", "consumerOffset")


def _described(source: Mapping[str, Any]) -> Iterator[str]:
    yield f"{source['type']} {source['name']}, topic {source['topic']}"
    rows = [[field["name"], _type_text(field["schema"]), field.get("type") or ""]
            for field in source["fields"]]  # fmt: skip
    yield table(["column", "type", ""], rows)
    for words in (source.get("statistics"), source.get("errorStats")):
        if words:
            yield words
    for summary in source.get("queryOffsetSummaries", ()):
        rows = [
            [read["kafkaTopic"], *(str(offset[name]) for name in _OFFSETS)]
            for read in summary["topicSummaries"] for offset in read["offsets"]
        ]  # fmt: skip
        yield table(["topic", *_OFFSETS], rows)
    for query in (*source["readQueries"], *source["writeQueries"]):
        yield f"{query['id']}: {query['queryString']}"


def _type_text(schema: Mapping[str, Any]) -> str:
    kind = schema["type"]
    if kind == "ARRAY":
        return f"ARRAY<{_type_text(schema['memberSchema'])}>"
    if kind == "MAP":
        return f"MAP<STRING, {_type_text(schema['memberSchema'])}>"
    if kind == "STRUCT":
        inner = (f"{field['name']} {_type_text(field['schema'])}" for field in schema["fields"])
        return f"STRUCT<{', '.join(inner)}>"
    if kind == "DECIMAL" and "parameters" in schema:
        return f"DECIMAL({schema['parameters']['precision']}, {schema['parameters']['scale']})"
    return str(kind)
