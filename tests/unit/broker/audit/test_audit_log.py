"""The audit log: what is in it, and what happens when its sink is slow, fails or stalls."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from odradek.broker.audit.log import AuditLog
from odradek.broker.audit.sinks import FileSink
from odradek.config import BrokerSettings
from odradek.protocol.acls import Operation, ResourceType
from odradek.protocol.apis import AnyApi, find_api
from odradek.protocol.types import BrokerId
from odradek.security.principals import Principal
from odradek.world import MemoryDisk, SystemClock, World

ADA = Principal("User", "ada").in_groups(["shop"])
TOPIC = ResourceType.TOPIC


class Connection:
    """What the audit log reads of a connection."""

    principal = ADA
    address = "10.0.0.7"
    port = 5000
    listener = "SASL_SSL"


class Request:
    """What it reads of a request."""

    connection = Connection()
    client_id = "shop-1"
    correlation_id = 8

    @property
    def api(self) -> AnyApi:
        found = find_api(0)
        assert found is not None
        return found


class GatedSink:
    """Takes lines when the gate is open."""

    description = "a gate"

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.gate = asyncio.Event()
        self.fails = False
        # Set after every write.
        self.taken = asyncio.Event()

    async def write(self, lines: Sequence[bytes]) -> bool:
        await self.gate.wait()
        self.taken.set()
        if self.fails:
            return False
        self.lines += [json.loads(line) for line in lines]
        return True

    def close(self) -> None:
        """There is nothing to close."""


def audit_log(sink: Any, **properties: str) -> AuditLog:
    named = {f"odradek.audit.{name.replace('_', '.')}": text for name, text in properties.items()}
    settings = BrokerSettings.from_properties({"odradek.audit.sink": "file", **named})
    return AuditLog(BrokerId(1), settings, SystemClock(), sink)


def deny(log: AuditLog, name: str, *, is_allowed: bool = False) -> None:
    log.decided(Request(), Operation.WRITE, TOPIC, name, is_allowed=is_allowed)


async def stopped(running: "asyncio.Task[None]") -> None:
    running.cancel()
    await asyncio.wait([running])


async def until(sink: GatedSink, count: int) -> None:
    async with asyncio.timeout(10):
        while len(sink.lines) < count:
            await sink.taken.wait()
            sink.taken.clear()


async def test_an_event_says_who_what_and_from_where() -> None:
    sink = GatedSink()
    sink.gate.set()
    log = audit_log(sink)
    running = asyncio.ensure_future(log.run())
    deny(log, "orders")
    log.authenticated(Connection(), "SCRAM-SHA-256", ADA)
    log.authenticated(Connection(), "PLAIN", None, reason="Invalid username or password")
    log.changed(Request(), "Topic", "orders", "success", "deleted")
    await until(sink, 4)
    await stopped(running)
    denied, success, failure, change = sink.lines
    assert denied.pop("time").endswith("Z")
    assert denied == {
        "event": "authorization",
        "result": "denied",
        "principal": "User:ada",
        "groups": ["Group:shop"],
        "address": "10.0.0.7:5000",
        "listener": "SASL_SSL",
        "clientId": "shop-1",
        "requestId": 8,
        "api": "Produce",
        "operation": "Write",
        "resourceType": "Topic",
        "resource": "orders",
        "broker": 1,
    }
    assert (success["event"], success["result"]) == ("authentication", "success")
    assert (failure["result"], failure["operation"]) == ("failure", "PLAIN")
    assert failure["detail"] == "Invalid username or password"
    assert failure["principal"] == ""
    assert (change["event"], change["detail"]) == ("change", "deleted")
    assert (log.written, log.dropped, log.buffered) == (4, 0, 0)


async def test_allowed_operations_are_written_by_choice() -> None:
    sink = GatedSink()
    deny(quiet := audit_log(sink), "t", is_allowed=True)
    assert quiet.buffered == 0
    chatty = audit_log(sink, events="allowed", topic="trail")
    deny(chatty, "t", is_allowed=True)
    deny(chatty, "t")
    # Else the write of each event would be the next event.
    deny(chatty, "trail", is_allowed=True)
    assert chatty.buffered == 1


async def test_a_stalled_sink_blocks_nobody_and_loses_nothing_silently() -> None:
    sink = GatedSink()
    log = audit_log(sink, buffer_events="10")
    running = asyncio.ensure_future(log.run())
    for number in range(25):
        deny(log, f"t{number}")
    assert (log.buffered, log.dropped) == (10, 15)
    sink.gate.set()
    await until(sink, 11)
    deny(log, "later")
    await until(sink, 12)
    await stopped(running)
    assert [line.get("resource") for line in sink.lines] == [
        *(f"t{number}" for number in range(10)),
        None,
        "later",
    ]
    assert (sink.lines[10]["event"], sink.lines[10]["count"]) == ("dropped", 15)
    assert (log.written, log.dropped, log.buffered) == (11, 15, 0)


async def test_events_that_a_sink_refuses_are_counted_and_told() -> None:
    sink = GatedSink()
    sink.gate.set()
    sink.fails = True
    log = audit_log(sink)
    running = asyncio.ensure_future(log.run())
    deny(log, "lost")
    async with asyncio.timeout(10):
        while not log.dropped:  # noqa: ASYNC110 - it is counted after the write
            await asyncio.sleep(0)
    sink.fails = False
    deny(log, "found")
    await until(sink, 2)
    await stopped(running)
    assert [line["event"] for line in sink.lines] == ["authorization", "dropped"]
    assert (log.written, log.dropped) == (1, 1)


async def test_what_waits_is_written_when_the_broker_stops() -> None:
    sink = GatedSink()
    log = audit_log(sink)
    running = asyncio.ensure_future(log.run())
    await asyncio.sleep(0)
    deny(log, "last")
    sink.gate.set()
    await stopped(running)
    assert [line["resource"] for line in sink.lines] == ["last"]


async def test_what_cannot_be_written_at_the_end_is_counted() -> None:
    log = audit_log(GatedSink())
    running = asyncio.ensure_future(log.run())
    await asyncio.sleep(0)
    deny(log, "last")
    await stopped(running)
    assert (log.written, log.dropped, log.buffered) == (0, 1, 0)


async def test_text_of_clients_stays_in_its_line_and_is_bounded() -> None:
    sink = GatedSink()
    sink.gate.set()
    log = audit_log(sink)
    running = asyncio.ensure_future(log.run())
    deny(log, 'x"\n{"event":"forged"}' + "y" * 5000)
    await until(sink, 1)
    await stopped(running)
    (line,) = sink.lines
    assert line["event"] == "authorization"
    assert len(line["resource"]) < 1100


async def test_files_are_rolled() -> None:
    disk = MemoryDisk()
    sink = FileSink(World(disk=disk), "/logs/audit.log", max_bytes=1024, max_backups=2)
    for number in range(30):
        assert await sink.write([b"%d" % number + b"." * 100])
    sink.close()
    assert sorted(disk.list_directory("/logs")) == ["audit.log", "audit.log.1", "audit.log.2"]
    assert disk.read("/logs/audit.log").endswith(b"." * 100 + b"\n")
