"""Sources that others send to: what is acknowledged was stored, and what was not is not."""

import gzip
import hashlib
import hmac
import json
import logging
import logging.handlers
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgpack
import pytest
from fluent import sender as fluent_sender

from benchmarks.broker_process import ToolMissing, free_ports
from odradek.connect import plugins
from odradek.connect.connectors.acceptor import AcceptorTask
from odradek.connect.connectors.positions import Positions
from odradek.connect.connectors.syslog_messages import parse
from odradek.connect.errors import DataError
from odradek.connect.records import SourceRecord
from tests.certificates import Authority
from tests.needs import need

WEBHOOK = "odradek.connect.WebhookSourceConnector"
SYSLOG = "io.confluent.connect.syslog.SyslogSourceConnector"
FLUENT = "odradek.connect.FluentSourceConnector"
PATIENCE_S = 20.0


class Engine:
    """Reads a task as the engine does. `is_storing` says whether transactions succeed."""

    def __init__(self, task: AcceptorTask) -> None:
        self.task = task
        self.positions = Positions()
        self.records: list[SourceRecord] = []
        self.is_storing = True

    def turn(self) -> None:
        end = self.task.reach(self.positions, 100)
        found = list(self.task.read(self.positions, end))
        if found and self.is_storing:
            self.records += found
            self.positions = end
            self.task.stored(end)

    def until(self, count: int) -> list[Any]:
        deadline = time.monotonic() + PATIENCE_S
        while len(self.records) < count:
            assert time.monotonic() < deadline, f"only {len(self.records)} records came"
            self.turn()
            time.sleep(0.005)
        return [record.value for record in self.records]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Stores on and on, while the test sends."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(0.005):
                self.turn()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@contextmanager
def started(name: str, port_setting: str, **options: str) -> Iterator[tuple[Engine, int]]:
    port = free_ports(1)[0]
    plugin = plugins.find_connector(name)
    given = {option.replace("__", "."): text for option, text in options.items()}
    settings = plugin.settings_class.read({"topic": "t", port_setting: str(port), **given})
    with closing(plugin.load()(settings).task()) as task:
        engine = Engine(task)
        engine.turn()  # The listener starts.
        yield engine, port


# Webhooks


def post(port: int, body: bytes, path: str = "/", **headers: str) -> tuple[int, Any]:
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    request = Request(f"http://127.0.0.1:{port}{path}", body, given, method="POST")
    try:
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def webhook(**options: str) -> Any:
    return started(WEBHOOK, "webhook.port", **options)


def test_a_request_is_answered_when_it_is_stored() -> None:
    with webhook(webhook__key__header="X-Id", webhook__headers="X-Kind") as (engine, port):
        with engine.running():
            answer = post(port, b'{"a":1}', X_Id="7", X_Kind="new")
            assert answer == (200, {"stored": True})
            # It is stored already.
            assert [record.value for record in engine.records] == [{"a": 1}]
            assert post(port, b"[1,2]") == (200, {"stored": True})
        assert [record.value for record in engine.records] == [{"a": 1}, 1, 2]
        first = engine.records[0]
        assert (first.key, first.headers[0].name, first.headers[0].value) == ("7", "X-Kind", "new")
        assert [record.source_offset["sequence"] for record in engine.records] == [1, 2, 3]


def test_what_could_not_be_stored_is_not_acknowledged() -> None:
    with webhook(webhook__timeout__ms="50") as (engine, port):
        engine.is_storing = False
        with engine.running():
            status, answer = post(port, b'{"a":1}')
            assert (status, "try again" in answer["error"]) == (503, True)
        # The record is in the inbox still: it may be written twice, but is never lost.
        engine.is_storing = True
        assert engine.until(1) == [{"a": 1}]


def test_requests_that_are_not_allowed_or_make_no_sense() -> None:
    options = {
        "webhook__path": "/in", "webhook__hmac__secret": "s", "webhook__authorization": "Bearer x",
        "webhook__max__body__bytes": "20",
    }  # fmt: skip

    def signed(body: bytes) -> dict[str, str]:
        digest = hmac.new(b"s", body, hashlib.sha256).hexdigest()
        return {"X_Hub_Signature_256": f"sha256={digest}", "Authorization": "Bearer x"}

    with webhook(**options) as (engine, port), engine.running():
        assert post(port, b"{}", "/other")[0] == 404
        assert post(port, b"{}", "/in")[0] == 401
        assert post(port, b"{}", "/in", Authorization="Bearer x")[0] == 401
        assert post(port, b"{", "/in", **signed(b"{"))[0] == 400
        assert post(port, b"1" * 30, "/in", **signed(b"1" * 30))[0] == 413
        assert post(port, b"{}", "/in", **signed(b"{}"))[0] == 200


def test_a_port_that_is_taken_fails_the_task() -> None:
    with webhook() as (_, port):
        plugin = plugins.find_connector(WEBHOOK)
        settings = plugin.settings_class.read({"topic": "t", "webhook.port": str(port)})
        task = plugin.load()(settings).task()
        with pytest.raises(DataError, match="cannot listen at"):
            task.reach(Positions(), 10)
        task.close()


# Syslog

NOW = datetime(2024, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '<165>1 2003-10-11T22:14:15.003Z host app 123 ID47 [ex@1 a="b\\"c"][x y="z"] \ufeffhi',
            {
                "type": "RFC5424", "facility": 20, "severity": 5, "host": "host", "appName": "app",
                "processId": "123", "messageId": "ID47", "message": "hi", "version": 1,
                "structuredData": {"ex@1": {"a": 'b"c'}, "x": {"y": "z"}},
                "timestamp": datetime(2003, 10, 11, 22, 14, 15, 3000, UTC),
            },
        ),
        (
            "<34>1 - - su - - - 'su root' failed",
            {"type": "RFC5424", "host": None, "appName": "su", "timestamp": None,
             "message": "'su root' failed", "structuredData": None},
        ),
        (
            "<13>Dec 31 23:59:59 router sshd[42]: Accepted",
            {"type": "RFC3164", "host": "router", "appName": "sshd", "processId": "42",
             "message": "Accepted", "timestamp": datetime(2023, 12, 31, 23, 59, 59, tzinfo=UTC)},
        ),
        ("no form at all", {"type": "UNKNOWN", "facility": 1, "severity": 5,
                            "message": "no form at all"}),
        ("<999>x", {"type": "UNKNOWN", "message": "<999>x"}),
    ],
)  # fmt: skip
def test_forms_of_syslog(text: str, expected: dict[str, Any]) -> None:
    found = parse(text, "10.0.0.1", NOW)
    assert {name: found[name] for name in expected} == expected
    assert (found["rawMessage"], found["remoteAddress"]) == (text, "10.0.0.1")


def syslog(listener: str, **options: str) -> Any:
    return started(SYSLOG, "syslog.port", syslog__listener=listener, **options)


@pytest.mark.parametrize("listener", ["UDP", "TCP"])
def test_messages_of_other_programs(listener: str) -> None:
    """Of util-linux's logger, and of Python's own logging."""
    program = need(lambda: _program("logger", "bsdutils"))
    with syslog(listener) as (engine, port):
        flags = ["-d"] if listener == "UDP" else ["-T"]
        for form in ("--rfc5424", "--rfc3164"):
            command = [program, *flags, form, "-n", "127.0.0.1", "-P", str(port), "-t", "shop"]
            subprocess.run([*command, "an order"], check=True)
        kind = socket.SOCK_DGRAM if listener == "UDP" else socket.SOCK_STREAM
        handler = logging.handlers.SysLogHandler(("127.0.0.1", port), socktype=kind)
        handler.append_nul = False
        handler.emit(logging.LogRecord("x", logging.ERROR, "", 0, "it failed\n", None, None))
        handler.close()
        found = engine.until(3)
    assert [value["type"] for value in found[:2]] == ["RFC5424", "RFC3164"]
    assert {value["appName"] for value in found[:2]} == {"shop"}
    assert {value["message"] for value in found} == {"an order", "it failed"}
    assert found[2]["severity"] == 3


def _program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(f"{name} is not installed: apt-get install {package}")
    return found


def test_both_framings_of_one_connection() -> None:
    with syslog("TCP", syslog__max__message__bytes="480") as (engine, port):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"8 <13>a\nbc<13>one\n<13>two\r\n6 <13>xy<13>last")
        assert [value["message"] for value in engine.until(5)] == [
            "a\nbc",
            "one",
            "two",
            "xy",
            "last",
        ]
        # What is too long ends the connection, and not the task.
        with socket.create_connection(("127.0.0.1", port)) as connection:
            with suppress(OSError):
                connection.sendall(b"<13>" + b"x" * 100_000)
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"<13>more\n")
        assert engine.until(6)[-1]["message"] == "more"


def test_a_sender_over_tcp_is_slowed_down() -> None:
    with syslog("TCP", syslog__queue__max__size="10") as (engine, port):
        engine.is_storing = False
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.settimeout(0.5)
            message = b"<13>" + b"x" * 1000 + b"\n"
            with pytest.raises(TimeoutError):
                connection.sendall(message * 100_000)
            engine.is_storing = True
            assert len(engine.until(100)) >= 100


def test_syslog_over_tls(tmp_path: Path) -> None:
    authority = Authority()
    keystore = authority.issue("localhost").keystore(tmp_path / "key.pem")
    options = {
        "syslog__ssl__cert__chain__path": str(keystore),
        "syslog__ssl__key__path": str(keystore),
    }
    with syslog("TCPSSL", **options) as (engine, port):
        context = ssl.create_default_context(cadata=authority.pem)
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            connection.sendall(b"<13>safe\n")
            assert engine.until(1)[0]["message"] == "safe"


# Log agents


def fluent(**options: str) -> Any:
    return started(FLUENT, "fluent.port", **options)


def test_the_client_of_fluentd() -> None:
    with fluent(topic="logs-${tag}") as (engine, port):
        client = fluent_sender.FluentSender(
            "app", host="127.0.0.1", port=port, nanosecond_precision=True
        )
        assert client.emit_with_time("web", 1_700_000_000.5, {"status": 200, "path": "/ä"})
        client.close()
        assert engine.until(1) == [{"tag": "app.web", "status": 200, "path": "/ä"}]
        record = engine.records[0]
        assert (record.topic, record.key, record.timestamp_ms) == (
            "logs-app.web", "app.web", 1_700_000_000_500,
        )  # fmt: skip


def event(moment: int, **fields: Any) -> bytes:
    packed: bytes = msgpack.packb([moment, fields])
    return packed


def answers(connection: socket.socket, count: int) -> list[Any]:
    connection.settimeout(PATIENCE_S)
    unpacker = msgpack.Unpacker()
    found: list[Any] = []
    while len(found) < count:
        unpacker.feed(connection.recv(4096))
        found += list(unpacker)
    return found


def test_all_forms_of_messages_are_acknowledged_when_they_are_stored() -> None:
    events = event(1, n=1) + event(2, n=2)
    messages: list[list[Any]] = [
        ["a", 5, {"n": 0}, {"chunk": "c0"}],
        ["a", [[1, {"n": 1}], [2, {"n": 2}]], {"chunk": "c1"}],
        ["a", events, {"chunk": "c2", "size": 2}],
        ["a", gzip.compress(events), {"chunk": "c3", "compressed": "gzip"}],
        # Newer versions of Fluent Bit send metadata beside the time.
        ["a", [[[msgpack.ExtType(0, bytes(8)), {}], {"n": b"\xff", "deep": {"x": [1.5, None]}}]]],
    ]
    with fluent() as (engine, port), socket.create_connection(("127.0.0.1", port)) as connection:
        data = b"".join(msgpack.packb(message) for message in messages)
        # Old agents have no bytes, and send them as text.
        data += msgpack.packb(["a", events + event(3, n=3, raw="ä"), {}], use_bin_type=False)
        engine.is_storing = False
        with engine.running():
            for number in range(0, len(data), 7):
                connection.sendall(data[number : number + 7])
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            engine.is_storing = True
            assert answers(connection, 4) == [{"ack": f"c{number}"} for number in range(4)]
        numbers = [value["n"] for value in engine.until(11)]
        assert numbers == [0, 1, 2, 1, 2, 1, 2, "�", 1, 2, 3]
        assert engine.records[10].value["raw"] == "ä"
        assert engine.records[7].value["deep"] == {"x": [1.5, None]}


@pytest.mark.parametrize(("key", "is_let_in"), [("secret", True), ("wrong", False)])
def test_agents_show_that_they_know_the_key(key: str, is_let_in: bool) -> None:
    with (
        fluent(fluent__shared__key="secret") as (engine, port),
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        kind, options = answers(connection, 1)[0]
        assert kind == "HELO"
        text = f"salthost{options['nonce']}{key}"
        digest = hashlib.sha512(text.encode()).hexdigest()
        connection.sendall(msgpack.packb(["PING", "host", "salt", digest, "", ""]))
        pong = answers(connection, 1)[0]
        assert pong[:2] == ["PONG", is_let_in]
        if is_let_in:
            own = hashlib.sha512(f"salt{pong[3]}{options['nonce']}secret".encode()).hexdigest()
            assert pong[4] == own
            connection.sendall(msgpack.packb(["a", 1, {"n": 1}]))
            assert engine.until(1) == [{"tag": "a", "n": 1}]


@pytest.mark.parametrize("data", [b"\xc1", msgpack.packb([1, 2]), b"\x91" * 1000])
def test_what_is_no_message_ends_the_connection_only(data: bytes) -> None:
    with fluent() as (engine, port):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(data)
            connection.settimeout(PATIENCE_S)
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(msgpack.packb(["a", 1, {"n": 1}]))
            assert len(engine.until(1)) == 1


@pytest.mark.parametrize("kind", ["reset", "gone"])
def test_offsets_that_cannot_be(kind: str) -> None:
    with fluent() as (engine, _):
        (partition,) = [engine.task.partition]
        ahead = Positions([(partition, {"sequence": 5})])
        with pytest.raises(DataError):
            engine.task.reach(ahead, 10)
