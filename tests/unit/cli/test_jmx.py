"""`odradek jmx` against a broker in this process; the tool runs in a thread, because it waits."""

import asyncio
import json
import socket
import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from odradek.cli.cluster import jmx, jmx_actions
from odradek.cli.cluster.jmx_actions import Range
from odradek.cli.kafka_names import command_of_class
from odradek.tools.failures import CommandFailed, UsageError
from tests.unit.broker.management.running import running
from tests.unit.cli.test_flags import parse

UNDER = "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions"


async def told(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    """Runs a broker and the tool; returns its exit code and what it printed."""
    async with asyncio.timeout(30), running() as one:
        arguments = parse("jmx", "--jmx-url", one.url, *flags)
        code = await asyncio.to_thread(jmx.run, arguments)
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "found"),
    [
        (None, ("127.0.0.1", 9192)),
        ("http://broker:1/", ("broker", 1)),
        ("broker:1", ("broker", 1)),
        ("http://[::1]:9192", ("::1", 9192)),
        ("service:jmx:rmi:///jndi/rmi://:9999/jmxrmi", ("127.0.0.1", 9999)),
        ("service:jmx:rmi:///jndi/rmi://broker:9999/jmxrmi", ("broker", 9999)),
    ],
)
def test_addresses(url: str | None, found: tuple[str, int]) -> None:
    assert jmx.address(url) == found


def test_what_is_no_address_is_refused() -> None:
    for url in ("https://broker:1", "broker", "http://broker:99999"):
        with pytest.raises(UsageError, match="is not an address"):
            jmx.address(url)


def test_kafkas_class_is_the_tool() -> None:
    assert command_of_class("kafka.tools.JmxTool") == "jmx"


async def test_a_line_of_names_and_a_line_of_values(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--object-name", UNDER, "--attributes", "Value", "--one-time", "true")
    code, printed = await told(capsys, *flags)
    heading, row = printed.splitlines()
    assert (code, heading) == (0, f'"time","{UNDER}:Value"')
    assert row.partition(",")[2] == "0"


@pytest.mark.parametrize(
    ("report_format", "line"),
    [
        ("properties", f"{UNDER}:Value=0\n"),
        ("csv", f'{UNDER}:Value,"0"\n'),
        ("tsv", f"{UNDER}:Value\t0\n"),
    ],
)
async def test_formats(capsys: pytest.CaptureFixture[str], report_format: str, line: str) -> None:
    flags = ("--object-name", UNDER, "--reporting-interval", "-1")
    assert await told(capsys, *flags, "--report-format", report_format) == (0, line)


async def test_patterns_attributes_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    pattern = "kafka.server:type=BrokerTopicMetrics,name=Bytes*"
    _, printed = await told(capsys, "--object-name", pattern, "--attributes", "Count", "--json")
    assert set(json.loads(printed)) == {
        f"kafka.server:type=BrokerTopicMetrics,name={name}PerSec:Count"
        for name in ("BytesIn", "BytesOut", "BytesRejected")
    }


async def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    _, printed = await told(capsys, "--names", "--object-name", "kafka.controller:*")
    assert "kafka.controller:type=KafkaController,name=ActiveControllerCount" in printed
    assert "kafka.server" not in printed


async def test_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandFailed, match="no MBean matches"):
        await told(capsys, "--object-name", "kafka.server:type=Nothing", "--one-time")


@pytest.mark.parametrize(
    ("warn", "crit", "code", "word"),
    [("0", "10", 0, "OK"), ("1:", "~:10", 1, "WARNING"), ("1:", "@0:5", 2, "CRITICAL")],
)
async def test_checks(
    capsys: pytest.CaptureFixture[str], warn: str, crit: str, code: int, word: str
) -> None:
    flags = ("--object-name", UNDER, "--attributes", "Value", "--warn", warn, "--crit", crit)
    expected = f"{word} - {UNDER}:Value is 0 | '{UNDER}:Value'=0\n"
    assert await told(capsys, *flags) == (code, expected)


def test_a_check_of_a_broker_that_is_gone_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--object-name", UNDER, "--attributes", "Value", "--warn", "0")
    with socket.socket() as bound:  # It does not listen.
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert jmx.run(parse("jmx", "--jmx-url", url, *flags)) == 3
    assert capsys.readouterr().out.startswith("UNKNOWN - no management port answers at 127.0.0.1:")


def test_ranges_of_nagios() -> None:
    assert Range.parse("--warn", "10") == (0, 10, False)
    assert Range.parse("--warn", "10:") == (10, float("inf"), False)
    assert not Range.parse("--warn", "~:10").alerts(-5)
    assert Range.parse("--warn", "@1:2").alerts(1)
    with pytest.raises(UsageError, match="is not a range"):
        Range.parse("--warn", "many")
    with pytest.raises(jmx_actions.UnusableCheck, match="what is compared"):
        jmx.run(parse("jmx", "--warn", "1"))


async def test_the_report_goes_on_and_waits(capsys: pytest.CaptureFixture[str]) -> None:
    class Enough(Exception):
        pass

    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 2:
            raise Enough

    async with asyncio.timeout(30), running() as one:
        where = jmx.address(one.url)
        arguments = parse("jmx", "--object-name", UNDER, "--reporting-interval", "250")
        with pytest.raises(Enough):
            await asyncio.to_thread(jmx_actions.report, arguments, where, sleep)
        # The line of names is printed once.
        assert len(capsys.readouterr().out.splitlines()) == 3
        assert pauses == [0.25, 0.25]
        pauses.clear()
        arguments = parse("jmx", "--object-name", "kafka.server:type=Nothing", "--wait")
        with pytest.raises(Enough):
            await asyncio.to_thread(jmx_actions.report, arguments, where, sleep)
        assert capsys.readouterr().out == ""


def test_another_web_server_is_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        where = ("127.0.0.1", server.server_address[1])
        try:
            with pytest.raises(CommandFailed) as raised:
                jmx_actions.read_port(where, "/jolokia/read/*:*")
        finally:
            server.shutdown()
            thread.join()
    line = str(raised.value)
    assert line.startswith(f"another web server listens at 127.0.0.1:{where[1]}, not a management")
    assert "<" not in line
    assert line.endswith("name it with --jmx-url http://host:port")


def test_a_port_that_is_silent_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jmx_actions, "_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = ("127.0.0.1", server.getsockname()[1])
        with pytest.raises(CommandFailed, match=r"something listens at .* has not answered"):
            jmx_actions.read_port(where, "/jolokia/read/*:*")


async def test_a_misspelt_name_or_attribute_names_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(CommandFailed, match=f"no MBean matches .*; did you mean {UNDER}"):
        await told(capsys, "--object-name", UNDER.removesuffix("s"), "--one-time")
    with pytest.raises(CommandFailed, match=f"{UNDER} has no attribute Vlue; did you mean Value"):
        await told(capsys, "--object-name", UNDER, "--attributes", "Vlue", "--one-time")


def test_the_port_is_that_of_the_broker_that_other_tools_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ODRADEK_BOOTSTRAP", "10.0.0.5:9093,10.0.0.6:9093")
    assert jmx.address(None) == ("10.0.0.5", 9193)
    assert jmx.address("http://127.0.0.1:9192") == ("127.0.0.1", 9192)
