"""`odradek top` in a real terminal, with a real broker: sizes, keys, colours, and how it ends.

The terminal is a pseudo-terminal, and pyte draws what is written to it, as a terminal would.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from fcntl import ioctl
from struct import pack

import pyte
import pytest

from odradek.client.sync import Consumer, Producer
from odradek.testing import Cluster

_DEADLINE_S = 60.0


class Terminal:
    """A program in a pseudo-terminal. `wait_for` reads until the screen is as it should be."""

    def __init__(self, words: list[str], columns: int, lines: int, **environment: str) -> None:
        self.master, slave = pty.openpty()
        self._slave = slave
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        self._resize(columns, lines)
        self.modes = termios.tcgetattr(slave)
        environ = {**os.environ, "TERM": "xterm-256color", **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "odradek.cli", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environ,
            start_new_session=True,
        )

    def _resize(self, columns: int, lines: int) -> None:
        ioctl(self.master, termios.TIOCSWINSZ, pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        self._resize(columns, lines)
        # The terminal is not the one that controls the session, so the kernel sends no signal.
        self.process.send_signal(signal.SIGWINCH)

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    def wait_for(self, condition: Callable[[str], object]) -> None:
        end_s = time.monotonic() + _DEADLINE_S
        while not condition(self.text):
            assert time.monotonic() < end_s, f"not as it should be:\n{self.text}"
            self._read(0.1)

    def wait_for_end(self) -> int:
        end_s = time.monotonic() + _DEADLINE_S
        while self.process.poll() is None:
            assert time.monotonic() < end_s, f"it does not end:\n{self.text}"
            self._read(0.1)
        while self._read(0):
            pass
        return self.process.wait()

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self.master], [], [], timeout_s)[0]:
            return False
        data = os.read(self.master, 65_536)
        self.written += data
        self._stream.feed(data)
        return True

    def modes_now(self) -> list[object]:
        return termios.tcgetattr(self._slave)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self._slave)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A broker with two topics, and a group that is behind in one of them."""
    with Cluster() as made:
        made.create_topic("orders", partitions=3)
        made.create_topic("clicks")
        with Producer(bootstrap_servers=made.bootstrap) as producer:
            for number in range(30):
                producer.send("orders", str(number).encode(), partition=number % 3)
            producer.flush()
        with Consumer(
            bootstrap_servers=made.bootstrap, group_id="billing", auto_offset_reset="earliest",
            enable_auto_commit=False, max_poll_records=12,
        ) as consumer:  # fmt: skip
            consumer.subscribe(["orders"])
            while not consumer.poll(timeout_ms=1000):
                pass
            consumer.commit()
        yield made


@pytest.fixture
def open_terminal(cluster: Cluster) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_(columns: int, lines: int, *flags: str, **environment: str) -> Terminal:
        words = ["top", "--bootstrap-server", cluster.bootstrap, "--interval", "0.3", *flags]
        opened.append(Terminal(words, columns, lines, **environment))
        return opened[-1]

    yield open_
    for terminal in opened:
        terminal.close()


def has_keys_in(terminal: Terminal, line: int) -> Callable[[str], bool]:
    """Returns a condition for `wait_for`: the line has the keys that can be pressed."""

    def is_there(_: str) -> bool:
        return "q quit" in terminal.screen.display[line]

    return is_there


def has(*texts: str) -> Callable[[str], object]:
    return lambda shown: all(text in shown for text in texts)


OpenTerminal = Callable[..., Terminal]


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 50)])
def test_the_page_fills_the_terminal(open_terminal: OpenTerminal, columns: int, lines: int) -> None:
    terminal = open_terminal(columns, lines)
    terminal.wait_for(has("orders", "billing", "0 URP"))
    terminal.wait_for(has_keys_in(terminal, lines - 1))
    assert terminal.screen.display[0].startswith("odradek top  cluster ")
    # The line is as wide as the terminal, and nothing of it is lost.
    terminal.wait_for(lambda _: terminal.screen.display[0].endswith(" s"))
    assert ("ADDRESS" in terminal.text) == (columns == 200)
    assert terminal.screen.cursor.hidden


def test_it_follows_the_size_of_the_terminal(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(80, 24)
    terminal.wait_for(has("billing"))
    for columns, lines in ((200, 50), (60, 12), (20, 5), (120, 30)):
        terminal.resize(columns, lines)
        terminal.wait_for(has_keys_in(terminal, lines - 1))
    terminal.wait_for(has("orders", "billing"))


def test_keys(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(80, 24)
    terminal.wait_for(has("billing", "orders"))
    terminal.press(b"4")
    terminal.wait_for(has("PARTITION", "orders-2", "IN SYNC"))
    terminal.press(b"\t")
    terminal.wait_for(has("WORST PARTITION", "18"))
    terminal.press(b"3/cli")
    terminal.wait_for(lambda text: "show only: cli" in text and "orders" not in text)
    terminal.press(b"\r")
    terminal.wait_for(has("/cli", "clicks"))
    terminal.press(b"\x1b")
    terminal.wait_for(has("orders"))
    terminal.press(b"s")
    terminal.wait_for(lambda _: header(terminal) == "OUT/s")
    terminal.press(b"p")
    terminal.wait_for(has("PAUSED"))
    terminal.press(b"?")
    terminal.wait_for(has("reverse the order"))
    terminal.press(b"x1")
    terminal.wait_for(has("BROKER", "TOPIC", "GROUP"))
    terminal.press(b"q")
    assert terminal.wait_for_end() == 0


def header(terminal: Terminal) -> str:
    """Returns the header that is shown reversed: the column of the order."""
    line = terminal.screen.buffer[3]
    return "".join(line[at].data for at in range(80) if line[at].reverse).strip()


def test_the_terminal_is_given_back(open_terminal: OpenTerminal) -> None:
    for end in ("key", "ctrl-c", "terminate"):
        terminal = open_terminal(80, 24)
        terminal.wait_for(has("billing"))
        if end == "key":
            terminal.press(b"q")
        else:
            terminal.process.send_signal(signal.SIGINT if end == "ctrl-c" else signal.SIGTERM)
        assert terminal.wait_for_end() == 0
        assert terminal.written.rstrip().endswith(b"\x1b[?7h\x1b[?25h\x1b[?1049l")
        assert terminal.modes_now() == terminal.modes


def test_without_colours(open_terminal: OpenTerminal) -> None:
    coloured, plain = open_terminal(80, 24), open_terminal(80, 24, NO_COLOR="1")
    for terminal in (coloured, plain):
        terminal.wait_for(has("billing", "running"))
    colour = re.compile(rb"\x1b\[[0-9;]*3[0-7]m")
    assert colour.search(coloured.written)
    assert not colour.search(plain.written)


def test_no_broker_is_told_in_the_terminal_as_it_was() -> None:
    words = ["top", "--bootstrap-server", "127.0.0.1:1"]
    terminal = Terminal(words, 80, 24)
    try:
        assert terminal.wait_for_end() == 1
        assert terminal.modes_now() == terminal.modes
        after = terminal.written.rpartition(b"\x1b[?1049l")[2].decode()
        assert "odradek top: cannot connect to 127.0.0.1:1" in after.replace("\r\n", "")
        assert "asking 127.0.0.1:1 ..." in terminal.written.decode()
    finally:
        terminal.close()


def once(cluster: Cluster, *flags: str) -> str:
    words = ["top", "--bootstrap-server", cluster.bootstrap, *flags]
    command = [sys.executable, "-m", "odradek.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_once_for_people_and_for_programs(cluster: Cluster) -> None:
    text = once(cluster, "--once", "--interval", "0.2")
    assert "\x1b" not in text
    for line in ("BROKER", "TOPIC", "PARTITION", "GROUP", "EVENT"):
        assert re.search(rf"^{line}|  {line}", text, re.MULTILINE)
    figures = json.loads(once(cluster, "--json", "--interval", "0"))
    assert figures["interval_s"] is None
    (group,) = figures["groups"]
    assert (group["name"], group["lag"], group["kind"]) == ("billing", 18, "group")
    orders = next(topic for topic in figures["topics"] if topic["name"] == "orders")
    assert (orders["records"], orders["partitions"]) == (30, 3)


def test_one_panel_once(cluster: Cluster) -> None:
    lines = once(
        cluster, "--once", "--interval", "0", "--panel", "partitions", "--filter", "orders",
        "--sort", "end",
    ).splitlines()  # fmt: skip
    assert [line.split()[0] for line in lines] == ["PARTITION", "orders-0", "orders-1", "orders-2"]
