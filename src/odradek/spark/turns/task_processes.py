"""The owner's side of the processes of tasks: starts the zygote, and has a connection with the
process of every task, which is called its host.

An engine decides which tasks there are, and gets the messages of their hosts as a `HostListener`.
Nothing here waits for a host, so one that hangs delays nothing.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.spark.turns.hosting import STACK_SIGNAL, stack_path
from odradek.spark.turns.messages import (
    MAX_LINE_BYTES,
    OWNER_SOCKET,
    Message,
    encoded,
    read_message,
)
from odradek.world.unix_sockets import listening_socket

_log = logging.getLogger("odradek.spark")
_STACK_S: Final = 0.1


class HostListener(ABC):
    @abstractmethod
    def on_message(self, host: "Host", message: Message) -> None:
        """Called for each message of a host."""

    @abstractmethod
    def on_exit(self, host: "Host", status: int) -> None:
        """Called when a host has ended. A negative status is the signal that ended it."""

    @abstractmethod
    async def tasks_for_batch(self) -> Message:
        """Called when the lane's query plans its next batch. Returns the tasks in it."""


@dataclass(slots=True)
class Host:
    """The process of one task. `key` is the name of its socket."""

    key: str
    given: Mapping[str, object]
    pid: int | None = None
    writer: asyncio.StreamWriter | None = None
    exited: asyncio.Event = field(default_factory=asyncio.Event)
    is_unwanted: bool = False


class TaskProcesses:
    def __init__(
        self, directory: str, listener: HostListener, host_module: str, *preloaded: str
    ) -> None:
        """`host_module` has the function `host(directory, key)` of the processes; `preloaded` are
        other modules that they use."""
        self._modules = (host_module, *preloaded)
        self._directory = directory
        self._listener = listener
        self._numbers = itertools.count()
        self._hosts: dict[str, Host] = {}
        self._by_pid: dict[int, Host] = {}
        self._zygote: asyncio.subprocess.Process | None = None
        self._orders: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._starting = asyncio.Lock()

    async def open(self) -> None:
        """Starts to listen. The zygote starts with the first host."""
        listener = listening_socket(os.path.join(self._directory, OWNER_SOCKET))
        self._server = await asyncio.start_unix_server(
            self._serve, sock=listener, limit=MAX_LINE_BYTES
        )

    async def start(self, given: Mapping[str, object], module: str = "") -> Host:
        """Starts a process and gives it its task as soon as it asks. `module` is loaded before, for
        all later ones to share."""
        async with self._starting:
            if self._orders is None:
                await self._start_zygote()
        host = Host(f"task-{next(self._numbers)}", given)
        self._hosts[host.key] = host
        self._order({"fork": host.key, "module": module})
        return host

    def send(self, host: Host, message: Mapping[str, object]) -> None:
        """Sends an order to a process. Does nothing if the process has not connected yet."""
        if host.writer is not None:
            host.writer.write(encoded(message))

    def stop(self, host: Host) -> None:
        """Asks the process to end its task, and itself."""
        host.is_unwanted = True
        if host.writer is not None:
            host.writer.write(encoded({"stop": True}))
        elif host.pid is not None:
            self.kill(host)

    def kill(self, host: Host) -> None:
        host.is_unwanted = True
        if host.pid is not None:
            self._order({"signal": [host.pid, int(signal.SIGKILL)]})

    async def stack_of(self, host: Host) -> str:
        """Returns the current stack of a process, even of one that hangs."""
        path = stack_path(self._directory, host.key)
        with contextlib.suppress(OSError):
            os.truncate(path, 0)
            if host.pid is not None:
                self._order({"signal": [host.pid, int(STACK_SIGNAL)]})
            await asyncio.sleep(_STACK_S)
            return await asyncio.to_thread(_text_of, path)
        return ""

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._orders is not None:
            self._orders.close()
        if self._zygote is not None:
            await self._zygote.wait()
        if self._reading is not None:
            self._reading.cancel()
        # A server that closes leaves its connections open. Those that serve them end by themselves.
        serving = [*self._connections]
        for writer in self._connections.values():
            writer.close()
        await asyncio.gather(*serving)

    # The zygote

    async def _start_zygote(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._zygote = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "odradek.spark.turns.zygote",
                str(theirs.fileno()),
                self._directory,
                *self._modules,
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
            )
        reader, self._orders = await asyncio.open_unix_connection(sock=ours)
        self._reading = asyncio.create_task(self._read_zygote(reader))

    async def _read_zygote(self, reader: asyncio.StreamReader) -> None:
        while (message := await read_message(reader)) is not None:
            if "forked" in message:
                host = self._hosts[message["forked"]]
                host.pid = message["pid"]
                self._by_pid[message["pid"]] = host
                if host.is_unwanted:
                    self.kill(host)
            else:
                self._gone(self._by_pid.pop(message["exited"]), message["status"])
        # It has ended, and all its children with it.
        self._orders = None
        for host in [*self._hosts.values()]:
            self._gone(host, -int(signal.SIGKILL))
        self._by_pid.clear()

    def _gone(self, host: Host, status: int) -> None:
        self._hosts.pop(host.key, None)
        for path in (
            os.path.join(self._directory, host.key),
            stack_path(self._directory, host.key),
        ):
            with contextlib.suppress(OSError):
                os.unlink(path)
        host.exited.set()
        self._listener.on_exit(host, status)

    def _order(self, order: Mapping[str, object]) -> None:
        if self._orders is not None:
            self._orders.write(encoded(order))

    # Connections of the hosts and of Spark

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection: that of a host, or one of the lane's query."""
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        try:
            with contextlib.suppress(ConnectionError):
                first = await read_message(reader)
                if first is not None and "hello" in first:
                    await self._serve_host(first["hello"], reader, writer)
                elif first is not None:
                    writer.write(encoded(await self._listener.tasks_for_batch()))
                    await writer.drain()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        finally:
            del self._connections[task]

    async def _serve_host(
        self, key: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host = self._hosts.get(key)
        if host is None or host.is_unwanted:
            return
        host.writer = writer
        writer.write(encoded(host.given))
        while (message := await read_message(reader)) is not None:
            self._listener.on_message(host, message)
        host.writer = None


def _text_of(path: str) -> str:
    with open(path) as file:
        return file.read().replace("\x00", "")
