"""`odradek local start --platform --secure`: callers of the services are users of the brokers."""

import html
import json
import re
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from odradek.client.sync import Admin
from odradek.config.properties import parse_properties
from tests.scenarios.rest_server import basic
from tests.scenarios.test_platform import odradek, until
from tests.scenarios.test_real_principals import free_ports

AVRO_V2 = "application/vnd.kafka.avro.v2+json"
# docs/registry.md, "Who may do what".
REGISTRY_MAY = {
    ("TOPIC", "_schemas", "CREATE"),
    ("TOPIC", "_schemas", "DESCRIBE"),
    ("TOPIC", "_schemas", "DESCRIBE_CONFIGS"),
    ("TOPIC", "_schemas", "READ"),
    ("TOPIC", "_schemas", "WRITE"),
    ("GROUP", "schema-registry", "DESCRIBE"),
    ("GROUP", "schema-registry", "READ"),
    ("TRANSACTIONAL_ID", "schema-registry-_schemas", "DESCRIBE"),
    ("TRANSACTIONAL_ID", "schema-registry-_schemas", "WRITE"),
}


class Platform(NamedTuple):
    data: Path
    registry: str
    rest: str
    connect: str
    sql: str
    console: str
    said: str

    def ask(  # noqa: PLR0917 - a request has as many parts
        self, url: str, user: str = "", password: str = "", body: Any = None, kind: str = "",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:  # fmt: skip
        """Returns the status and the JSON of an answer, over TLS with the cluster's authority."""
        headers = headers or (basic(user, password) if user else {})
        headers |= {"Content-Type": kind or "application/json"} if body is not None else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers)
        trust = ssl.create_default_context(cafile=self.data / "security/ca.crt")
        try:
            with urllib.request.urlopen(request, timeout=30, context=trust) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


class Browser:
    """Somebody at the console: pages and forms over TLS, with a cookie and the session's token."""

    def __init__(self, platform: Platform) -> None:
        self._base = platform.console
        trust = ssl.create_default_context(cafile=platform.data / "security/ca.crt")
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=trust), urllib.request.HTTPCookieProcessor()
        )
        self._csrf = ""

    def log_in(self, user: str, password: str) -> None:
        self.open("/log-in/local")
        status, page = self.open("/log-in/local", {"name": user, "password": password})
        assert (status, "Log out" in page) == (200, True), page

    def open(self, path: str, form: dict[str, str] | None = None) -> tuple[int, str]:
        """Returns the status and the text of a page, after redirects."""
        data = None
        if form is not None:
            data = urllib.parse.urlencode({**form, "csrf": self._csrf}).encode()
        try:
            with self._opener.open(self._base + path, data, timeout=60) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read().decode()
        if (found := re.search('name="csrf" value="([0-9a-f]+)"', text)) is not None:
            self._csrf = found[1]
        return status, html.unescape(text)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    data = tmp_path_factory.mktemp("platform") / "data"
    first, registry, rest, connect, sql, console = free_ports(6)
    flags = ["--data", str(data), "--platform", "--secure", "--brokers", "1", "--port", str(first)]
    flags += ["--registry-port", str(registry), "--rest-port", str(rest)]
    flags += ["--connect-port", str(connect), "--sql-port", str(sql)]
    flags += ["--console-port", str(console)]
    # A directory that was secured before there were services gets what they need.
    for more in ([], ["--platform"]):
        words = [word for word in flags if word != "--platform"]
        started = odradek("local", "start", *words, *more)
        assert started.returncode == 0, started.stderr
        if not more:
            odradek("local", "stop", "--data", str(data))
    try:
        base = "https://127.0.0.1"
        yield Platform(
            data, f"{base}:{registry}", f"{base}:{rest}", f"{base}:{connect}", f"{base}:{sql}",
            f"{base}:{console}", started.stdout,
        )  # fmt: skip
    finally:
        stopped = odradek("local", "stop", "--data", str(data))
        assert stopped.returncode == 0, stopped.stderr


@pytest.fixture(scope="module")
def ada(platform: Platform) -> str:
    """A user who may use the topic `orders`."""
    return _user(platform, "ada")


@pytest.fixture(scope="module")
def kim(platform: Platform) -> str:
    """Another one. A test gives ada more rights."""
    return _user(platform, "kim")


def _user(platform: Platform, name: str) -> str:
    config = ("--command-config", str(platform.data / "client.properties"))
    password = ("--add-config", f"SCRAM-SHA-512=[password={name}-secret]")
    rules = ("--producer", "--consumer", "--topic", "orders", "--group", "readers")
    for words in (
        ("configs", "--alter", "--user", name, *password),
        ("topics", "--create", "--if-not-exists", "--topic", "orders"),
        ("acls", "--add", "--allow-principal", f"User:{name}", *rules),
    ):
        done = odradek(*words, *config)
        assert done.returncode == 0, done.stderr
    return name


def test_the_line_that_is_printed_works(platform: Platform) -> None:
    (line,) = [line for line in platform.said.splitlines() if line.strip().startswith("curl ")]
    done = subprocess.run(
        ["bash", "-c", f"{line.strip()} -s --fail-with-body"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["kind"] == "KafkaClusterList"
    assert "the console takes the same users; the password of admin is" in platform.said


def test_callers_log_in_as_users_of_the_brokers(platform: Platform, ada: str) -> None:
    for url in (
        f"{platform.rest}/topics",
        f"{platform.registry}/subjects",
        f"{platform.connect}/connectors",
        f"{platform.sql}/info",
    ):
        assert platform.ask(url)[0] == 401
        assert platform.ask(url, ada, "guess")[0] == 401
        assert platform.ask(url, ada)[0] == 200
    assert platform.ask(f"{platform.rest}/topics", ada)[1] == ["orders"]
    schema = {"schema": '"string"'}
    versions = f"{platform.registry}/subjects/{{}}/versions"
    assert platform.ask(versions.format("orders-key"), ada, body=schema)[0] == 200
    status, said = platform.ask(versions.format("secrets-key"), ada, body=schema)
    assert (status, said["error_code"]) == (403, 40301)


def test_who_may_write_the_configurations_may_change_connectors(
    platform: Platform, ada: str
) -> None:
    lines = platform.data.parent / "lines"
    lines.write_text("one\n")
    config = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "lines"}
    body = {"name": "lines", "config": config}
    status, said = platform.ask(f"{platform.connect}/connectors", ada, body=body)
    assert status == 403
    assert "it needs WRITE on topic connect-configs" in said["message"]
    properties = parse_properties((platform.data / "security/passwords.properties").read_text())
    status, said = platform.ask(
        f"{platform.connect}/connectors", "admin", properties["admin"], body=body
    )
    assert status == 201, said
    # The task writes as the user of Connect: no caller is there any more.
    url = f"{platform.connect}/connectors/lines"
    until(
        lambda: platform.ask(f"{url}/offsets", "admin", properties["admin"])[1]["offsets"],
        "the line was not written",
    )


def test_statements_and_queries_have_the_rights_of_their_caller(
    platform: Platform, ada: str
) -> None:
    properties = parse_properties((platform.data / "security/passwords.properties").read_text())

    def ksql(text: str, user: str, password: str) -> tuple[int, Any]:
        return platform.ask(f"{platform.sql}/ksql", user, password, {"ksql": text})

    def rows(text: str, user: str, password: str) -> tuple[int, Any]:
        body = {"sql": text, "properties": {"auto.offset.reset": "earliest"}}
        headers = basic(user, password) | {"Accept": "application/json"}
        return platform.ask(f"{platform.sql}/query-stream", user, password, body, headers=headers)

    admin = ("admin", properties["admin"])
    caller = (ada, "ada-secret")
    stream = "CREATE STREAM {0} (k STRING KEY, v INT) WITH (kafka_topic='{0}', {1});"
    orders = stream.format("orders", "value_format='JSON'")
    status, said = ksql(orders, *caller)
    assert (status, said["error_code"]) == (403, 40301)
    assert "it needs WRITE on topic _odradek_sql_default__commands" in said["message"]
    secrets = stream.format("secrets", "value_format='JSON', partitions=1")
    assert ksql(orders + secrets, *admin)[0] == 200
    # She may use the topic `orders` and nothing else, by SQL as by Kafka.
    assert ksql("INSERT INTO orders VALUES ('a', 1);", *caller) == (200, [])
    assert rows("SELECT * FROM orders WHERE v = 1 EMIT CHANGES LIMIT 1;", *caller)[1][1:] == [
        ["a", 1]
    ]
    assert rows("SELECT * FROM orders WHERE v = 1;", *caller)[1][1:] == [["a", 1]]
    assert ksql("INSERT INTO secrets VALUES ('a', 1);", *caller)[0] == 403
    for text in ("SELECT * FROM secrets;", "SELECT * FROM secrets EMIT CHANGES;"):
        status, said = rows(text, *caller)
        assert (status, said["error_code"]) == (403, 40301), said
    # A persistent query runs as the server, and who makes it must have the rights that it uses.
    config = ("--command-config", str(platform.data / "client.properties"))
    rule = ("--add", "--allow-principal", f"User:{ada}", "--operation", "Write", "--operation")
    topic = ("Describe", "--topic", "_odradek_sql_default__commands")
    assert odradek("acls", *rule, *topic, *config).returncode == 0
    create = "CREATE STREAM copy AS SELECT * FROM {0};"
    status, said = ksql(create.format("secrets"), *caller)
    assert status == 403
    assert "it needs READ on topic secrets" in said["message"]
    assert ksql(create.format("orders"), *caller)[0] == 403  # No topic COPY may be made by her.
    status, said = ksql(create.format("secrets"), *admin)
    assert status == 200
    assert ksql("INSERT INTO secrets VALUES ('b', 2);", *admin)[0] == 200
    assert rows("SELECT * FROM copy EMIT CHANGES LIMIT 1;", *admin)[1][1:] == [["b", 2]]
    query_id = said[0]["commandStatus"]["queryId"]
    assert ksql(f"TERMINATE {query_id}; DROP STREAM copy DELETE TOPIC;", *caller)[0] == 403
    assert ksql("DROP STREAM copy DELETE TOPIC;", *admin)[0] == 200


def test_users_of_the_console_use_connectors_with_their_own_rights(
    platform: Platform, kim: str
) -> None:
    lines = platform.data.parent / "lines-of-the-console"
    lines.write_text("one\n")
    passwords = parse_properties((platform.data / "security/passwords.properties").read_text())
    form = {
        "name": "by-console", "class": "FileStreamSource", "s.file": str(lines), "s.topic": "lines",
        "action": "save",
    }  # fmt: skip
    user, admin = Browser(platform), Browser(platform)
    user.log_in(kim, "kim-secret")
    admin.log_in("admin", passwords["admin"])
    assert user.open("/c/local/connectors")[0] == 200
    status, page = user.open("/c/local/new-connector", form)
    assert status == 403
    assert "kim may not change connectors: it needs WRITE on topic connect-configs" in page
    status, page = admin.open("/c/local/new-connector", form)
    assert (status, "by-console was made" in page) == (200, True), page
    status, page = user.open("/c/local/connectors/by-console/do", {"action": "pause"})
    assert (status, "kim may not change connectors" in page) == (403, True)
    status, page = admin.open(
        "/c/local/connectors/by-console/do", {"action": "delete", "confirm": "by-console"}
    )
    assert (status, "by-console was deleted" in page) == (200, True), page


def test_users_of_the_console_use_sql_with_their_own_rights(platform: Platform, kim: str) -> None:
    passwords = parse_properties((platform.data / "security/passwords.properties").read_text())
    user, admin = Browser(platform), Browser(platform)
    user.log_in(kim, "kim-secret")
    admin.log_in("admin", passwords["admin"])

    def run(browser: Browser, text: str) -> tuple[int, str]:
        return browser.open("/c/local/sql", {"text": text, "action": "run", "from": "earliest"})

    stream = "CREATE STREAM {0} (k STRING KEY, v INT) WITH (kafka_topic='{1}', {2});"
    orders = stream.format("shop", "orders", "value_format='JSON'")
    pay = stream.format("pay", "payroll", "value_format='JSON', partitions=1")
    status, page = run(user, orders)
    # The server knows her by the id of her token, and the page says her name.
    assert status == 400
    assert "kim may not change streams" in page
    status, page = run(admin, orders + pay)
    assert (status, "Stream created" in page) == (200, True), page
    assert run(admin, "INSERT INTO pay VALUES ('wages-of-ada', 4711);")[0] == 200
    assert run(user, "INSERT INTO shop VALUES ('order-of-kim', 815);")[0] == 200
    status, page = run(user, "SELECT * FROM shop WHERE v = 815;")
    assert (status, "order-of-kim" in page.partition("</textarea>")[2]) == (200, True), page
    for text in ("SELECT * FROM pay;", "INSERT INTO pay VALUES ('b', 1);"):
        status, page = run(user, text)
        assert status == 400, page
        assert "payroll" in page.partition('role="alert"')[2].partition("</div>")[0]
        assert "wages-of-ada" not in page
    status, page = run(admin, "SELECT * FROM pay;")
    assert (status, "wages-of-ada" in page) == (200, True), page
    # Connect is asked by the SQL server with what the user has shown to it.
    create = "CREATE SOURCE CONNECTOR mine WITH ('connector.class'='FileStreamSource', {});"
    status, page = run(user, create.format("'file'='/dev/null', 'topic'='lines'"))
    assert (status, "kim may not change connectors" in page) == (400, True), page
    status, page = run(user, "SHOW CONNECTORS;")
    assert status == 200, page
    # The rights of the server, which may read every topic, are nobody's.
    status, page = user.open("/c/local/topics/payroll/messages")
    assert (status, "4711" in page) == (403, False)


def test_the_proxy_asks_the_registry_as_its_caller(platform: Platform, ada: str) -> None:
    body = {"value_schema": '"long"', "records": [{"value": 7}]}
    url = f"{platform.rest}/topics/orders"
    status, said = platform.ask(url, ada, body=body, kind=AVRO_V2)
    assert status == 200, said
    assert said["offsets"][0]["error_code"] is None
    log = (platform.data / "schema-registry.log").read_text()
    assert "ada POST /subjects/orders-value/versions 200" in log
    # She may not change this subject, so neither may the proxy for her.
    status, said = platform.ask(f"{platform.rest}/topics/secrets", ada, body=body, kind=AVRO_V2)
    assert (status, said["error_code"]) == (408, 40801)
    assert "ada may not change subject secrets-value" in said["message"]


def test_the_registry_may_do_what_is_documented_and_no_more(platform: Platform) -> None:
    properties = parse_properties((platform.data / "client.properties").read_text())
    with Admin(properties) as admin:
        found = {
            (acl.resource.type.name, acl.resource.name, acl.entry.operation.name)
            for acl in admin.describe_acls()
            if acl.entry.principal == "User:schema-registry"
        }
    assert found == REGISTRY_MAY


def test_no_log_and_no_line_has_a_password(platform: Platform) -> None:
    passwords = parse_properties((platform.data / "security/passwords.properties").read_text())
    assert sorted(passwords) == ["admin", "broker", "connect", "schema-registry", "sql-server"]
    for password in [*passwords.values(), "ada-secret", "kim-secret"]:
        assert password not in platform.said
        for path in platform.data.rglob("*.log"):
            # Log files of partitions are `.log` too, and hold no passwords either.
            assert password.encode() not in path.read_bytes(), path
    for path in platform.data.rglob("*"):
        assert path.lstat().st_mode & 0o077 == 0, path
