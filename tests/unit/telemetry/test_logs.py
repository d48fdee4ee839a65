import io
import logging
from collections.abc import Iterator

import pytest

from odradek.telemetry import logs
from odradek.telemetry.logs import DiskHandler, LineFormatter
from odradek.world import MemoryDisk


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_042

    def monotonic_s(self) -> float:
        return 0.0


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logs.start_logging(clock=FixedClock(), stream=stream)
    yield stream
    logs.stop_logging(handler)
    for name in (logs.ROOT, *logs.CATEGORIES):
        logs.set_level(name, None)


def test_a_message_is_a_line_as_kafka_writes_it(stream: io.StringIO) -> None:
    logging.getLogger(logs.SERVER).info("Started on %s", "localhost:9092")
    assert stream.getvalue() == (
        "[2023-11-14 22:13:20,042] INFO Started on localhost:9092 (odradek.server)\n"
    )


def test_what_came_over_the_wire_cannot_forge_a_line(stream: io.StringIO) -> None:
    forged = "x\n[2023-11-14 22:13:20,042] INFO all is well (odradek.server)\r\x1b[31m\u2028"
    logging.getLogger(logs.REQUESTS).warning("Unknown client %s", forged)
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert "\\n[2023" in written
    assert "\\r\\x1b[31m\\x2028" in written
    assert " WARN Unknown client" in written


def test_a_traceback_is_indented(stream: io.StringIO) -> None:
    try:
        raise ValueError("one\n[two")
    except ValueError:
        logging.getLogger(logs.SERVER).exception("Failed")
    first, *rest = stream.getvalue().splitlines()
    assert " ERROR Failed (odradek.server)" in first
    assert rest[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in rest)


def test_levels_change_while_running(stream: io.StringIO) -> None:
    requests = logging.getLogger(logs.REQUESTS)
    requests.debug("hidden")
    logs.set_level(logs.REQUESTS, "debug")
    requests.debug("shown")
    assert logs.levels()[logs.REQUESTS] == "DEBUG"
    assert logs.levels()[logs.SERVER] == "INFO"
    logs.set_level(logs.REQUESTS, None)
    requests.debug("hidden again")
    logs.set_level(logs.ROOT, "OFF")
    requests.critical("silenced")
    assert [line.split(" ")[3] for line in stream.getvalue().splitlines()] == ["shown"]


def test_an_unknown_logger_or_level_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no logger kafka; there are odradek, "):
        logs.set_level("kafka", "INFO")
    with pytest.raises(ValueError, match="there is no level LOUD; there are OFF, FATAL, "):
        logs.set_level(logs.SERVER, "LOUD")


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord(logs.SERVER, logging.INFO, "", 0, message, (), None)


def handler_on(disk: MemoryDisk, most_bytes: int = 1000, keep: int = 2) -> DiskHandler:
    handler = DiskHandler(disk, "/logs/server.log", most_bytes, keep)
    handler.setFormatter(LineFormatter(FixedClock()))
    return handler


def test_a_file_is_appended_to_and_rolled() -> None:
    disk = MemoryDisk()
    disk.make_directories("/logs")
    for number in range(3):
        handler = handler_on(disk)
        handler.handle(record(f"message {number}"))
        handler.close()
    assert disk.read("/logs/server.log").count(b"\n") == 3

    handler = handler_on(disk, most_bytes=100)
    for number in range(3, 10):
        handler.handle(record(f"message {number}"))
    handler.close()
    assert disk.list_directory("/logs") == ["server.log", "server.log.1", "server.log.2"]
    assert b"message 9" in disk.read("/logs/server.log")
    assert b"message 8" in disk.read("/logs/server.log.1")


class FullDisk(MemoryDisk):
    full = False

    def rename(self, source: str, target: str) -> None:
        if self.full:
            raise OSError("no space")
        super().rename(source, target)


def test_a_full_disk_loses_lines_and_nothing_else() -> None:
    disk = FullDisk()
    disk.make_directories("/logs")
    handler = handler_on(disk, most_bytes=70)
    handler.handle(record("one"))
    disk.full = True
    handler.handle(record("two"))
    assert handler.lost == 1
    disk.full = False
    handler.handle(record("three"))
    assert b"three" in disk.read("/logs/server.log")
    handler.close()
