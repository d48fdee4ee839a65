import io
import logging
import weakref
from collections.abc import Iterator

import pytest

from odradek.telemetry import logs
from odradek.telemetry.logs import LogFiles
from odradek.world import MemoryDisk
from tests.unit.telemetry.levels import default_levels


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_042

    def monotonic_s(self) -> float:
        return 0.0


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    with default_levels():
        yield


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    started = logs.start_logging(clock=FixedClock(), stream=stream)
    yield stream
    started.stop()


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


def said(stream: io.StringIO) -> list[str]:
    return [line.split(" ")[3] for line in stream.getvalue().splitlines()]


def test_levels_change_while_running(stream: io.StringIO) -> None:
    requests = logging.getLogger(logs.REQUESTS)
    requests.debug("hidden")
    logs.set_level("kafka.request.logger", "debug")
    assert requests.isEnabledFor(logging.DEBUG)
    shown = logs.levels()
    assert shown[logs.REQUESTS] == shown["kafka.request.logger"] == "DEBUG"
    assert shown[logs.SERVER] == shown["root"] == "INFO"
    logs.set_level(logs.REQUESTS, None)
    assert logs.levels()[logs.REQUESTS] == "WARN"
    requests.info("hidden again")
    requests.warning("shown")
    logs.set_level(logs.ROOT, "OFF")
    logging.getLogger(logs.CONTROLLER).critical("silenced")
    assert said(stream) == ["shown"]


def test_a_logger_of_the_program_has_a_level_though_nobody_declared_it() -> None:
    logging.getLogger("odradek.test.met")
    assert logs.levels()["odradek.test.met"] == logs.levels()[logs.ROOT]
    logs.set_level("odradek.test.met", "TRACE")
    assert logs.levels()["odradek.test.met"] == "TRACE"
    logging.getLogger("odradek.test.met").setLevel(27)  # Between INFO and WARN.
    assert logs.levels()["odradek.test.met"] == "WARN"
    logs.set_level("odradek.test.met", None)


class Follower:
    def __init__(self, told: list[str]) -> None:
        self._told = told

    def follow(self) -> None:
        self._told.append(logs.level_of(logs.REQUESTS))


def test_whoever_asks_only_once_is_told_of_changes() -> None:
    told: list[str] = []
    follower = Follower(told)
    unsubscribe = logs.subscribe(follower.follow)
    logs.set_level(logs.REQUESTS, "DEBUG")
    logs.set_level(logs.REQUESTS, "WARN")
    unsubscribe()
    logs.set_level(logs.REQUESTS, None)
    assert told == ["DEBUG", "WARN"]


def test_whoever_has_gone_is_not_told_and_not_kept() -> None:
    told: list[str] = []
    follower = Follower(told)
    kept = weakref.ref(follower)
    logs.subscribe(follower.follow)
    del follower
    logs.set_level(logs.REQUESTS, None)
    assert kept() is None
    assert told == []


def test_an_unknown_logger_or_level_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there is no logger kafka\.unheard; there are odradek, "):
        logs.set_level("kafka.unheard", "INFO")
    with pytest.raises(ValueError, match="there is no level LOUD; there are OFF, FATAL, "):
        logs.set_level(logs.SERVER, "LOUD")


def test_each_concern_has_its_file_and_the_terminal_only_warnings() -> None:
    disk, terminal = MemoryDisk(), io.StringIO()
    files = LogFiles("/data/logs", disk, FixedClock())
    started = logs.start_logging("INFO", files=files, stream=terminal, stream_level="WARN")
    try:
        for name in (logs.SERVER, "odradek.storage", *logs.FILES):
            logging.getLogger(name).info("tells")
            logging.getLogger(name).warning("warns")
        logging.getLogger(logs.SERVER).error("told otherwise", extra=logs.TOLD)
        logging.getLogger("asyncio").error("nobody waited")
    finally:
        started.stop()
    found = {
        name: [
            line.split(" ", 2)[2]
            for line in disk.read(f"/data/logs/{name}").decode().split("\n")
            if line
        ]
        for name in disk.list_directory("/data/logs")
    }
    assert found == {
        "authorizer.log": ["INFO tells (odradek.authorizer)", "WARN warns (odradek.authorizer)"],
        "controller.log": ["INFO tells (odradek.controller)", "WARN warns (odradek.controller)"],
        "log-cleaner.log": ["INFO tells (odradek.log_cleaner)", "WARN warns (odradek.log_cleaner)"],
        "request.log": ["WARN warns (odradek.request)"],
        "server.log": [
            "INFO tells (odradek.server)",
            "WARN warns (odradek.server)",
            "INFO tells (odradek.storage)",
            "WARN warns (odradek.storage)",
            "ERROR told otherwise (odradek.server)",
            "ERROR nobody waited (asyncio)",
        ],
        "state-change.log": [
            "INFO tells (odradek.state_change)",
            "WARN warns (odradek.state_change)",
        ],
    }
    assert said(terminal) == ["warns"] * 7 + ["nobody"]


def test_files_appear_with_their_first_line() -> None:
    disk = MemoryDisk()
    started = logs.start_logging(files=LogFiles("/data/logs", disk, FixedClock()))
    try:
        assert not disk.exists("/data/logs")
        logging.getLogger(logs.SERVER).debug("hidden")
        assert not disk.exists("/data/logs")
        logging.getLogger(logs.SERVER).info("shown")
        assert disk.list_directory("/data/logs") == ["server.log"]
    finally:
        started.stop()


def test_complaints_wait_until_the_broker_has_started(capsys: pytest.CaptureFixture[str]) -> None:
    disk = MemoryDisk()
    disk.make_directories("/data")
    disk.open("/data/logs", create=True).close()  # A file, where a directory should be.
    files = LogFiles("/data/logs", disk, FixedClock())
    started = logs.start_logging(files=files)
    try:
        logging.getLogger(logs.SERVER).info("one")
        assert capsys.readouterr().err == ""
        files.report_errors()
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("odradek: cannot write /data/logs/server.log: ")
        logging.getLogger(logs.CONTROLLER).info("two")
        assert "controller.log" in capsys.readouterr().err
        assert files.lost == 2
    finally:
        started.stop()
