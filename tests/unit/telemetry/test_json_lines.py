"""Log lines as JSON objects."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.telemetry import logs
from odradek.world import MemoryDisk
from tests.unit.telemetry.levels import default_levels
from tests.unit.telemetry.test_logs import FixedClock


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    with default_levels():
        yield


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    started = logs.start_logging("DEBUG", clock=FixedClock(), stream=stream, stream_format="json")
    yield stream
    started.stop()


def only(stream: io.StringIO) -> dict[str, Any]:
    (line,) = stream.getvalue().splitlines()
    assert line.isascii()
    return dict(json.loads(line))


def test_a_message_is_an_object(stream: io.StringIO) -> None:
    logging.getLogger(logs.SERVER).warning("%s is full", "the disk")
    assert only(stream) == {
        "timestamp": "2023-11-14T22:13:20.042Z",
        "level": "WARN",
        "logger": "odradek.server",
        "message": "the disk is full",
    }


def test_a_request_has_fields_whatever_the_client_calls_itself(stream: io.StringIO) -> None:
    name = '\'my client total_ms=9\n{"level":"FATAL"}\u2028\''
    logs.set_level(logs.REQUESTS, "DEBUG")
    logging.getLogger(logs.REQUESTS).debug(
        "api=%s version=%d client=%s connection=%s:%d total_ms=%.3f",
        *("Fetch", 18, name, "127.0.0.1", 5000, 0.12345),
    )
    line = only(stream)
    assert line["message"].startswith("api=Fetch version=18 client=")
    assert line["client"] == name
    del line["message"], line["timestamp"], line["client"]
    assert line == {
        "level": "DEBUG",
        "logger": "odradek.request",
        "api": "Fetch",
        "version": 18,
        "connection": "127.0.0.1:5000",
        "total_ms": 0.123,
    }


def test_words_of_other_loggers_are_no_fields(stream: io.StringIO) -> None:
    logging.getLogger(logs.SERVER).info("level=%s", "nonsense")
    assert only(stream)["level"] == "INFO"


def test_a_traceback_is_a_field(stream: io.StringIO) -> None:
    try:
        raise ValueError("one\ntwo")
    except ValueError:
        logging.getLogger(logs.SERVER).exception("failed")
    assert only(stream)["exception"].endswith("ValueError: one\ntwo")


def test_files_have_the_format_too() -> None:
    disk = MemoryDisk()
    started = logs.start_logging(
        files=logs.LogFiles("/logs", disk, FixedClock(), line_format="json")
    )
    logging.getLogger(logs.CONTROLLER).info("a broker joined")
    started.stop()
    line = json.loads(disk.read("/logs/controller.log"))
    assert line["message"] == "a broker joined"
