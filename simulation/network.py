"""The network between simulated hosts: `create_server` and `create_connection` end here.

A host has a name, an address and may be up or down. Between every two hosts there is a link in
each direction with its own delay and bandwidth, which can be cut: what travels then is held until
the link is healed, as TCP would send it again. Resets and refusals are injected. Whose
connection it is, is decided by the process that the calling task belongs to.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random
from typing import Any

from simulation.link import Link
from simulation.loop import SimulatedLoop
from simulation.process import Process, current_process
from simulation.trace import Trace
from simulation.transport import Pipe, SimulatedTransport

# Linux gives up on a silent peer after six repeated SYNs.
_CONNECT_TIMEOUT_S = 127.0
_FIRST_EPHEMERAL_PORT = 49_152
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ANYWHERE = (None, "", "0.0.0.0", "::")  # noqa: S104 - names of this, nothing is bound

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class SimulatedSocket:
    """What `server.sockets` and `get_extra_info("socket")` users ask for: the name."""

    __slots__ = ("_name",)
    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Accepted and ignored: a simulated wire has buffers of its own."""


class SimulatedServer(asyncio.AbstractServer):
    """A listening port. As from Python 3.12, `wait_closed` waits for its connections to end."""

    def __init__(
        self, network: "Network", host: "NetworkHost", factory: ProtocolFactory, port: int
    ) -> None:
        self._network = network
        self._host = host
        self._factory = factory
        self.port = port
        self.only_loopback = False
        self.context = copy_context()
        self.is_open = True
        self._serving = False
        self._connections: dict[int, SimulatedTransport] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._forever: asyncio.Future[None] | None = None

    @property
    def sockets(self) -> tuple[SimulatedSocket, ...]:
        return (SimulatedSocket((self._host.address, self.port)),) if self.is_open else ()

    def get_loop(self) -> SimulatedLoop:
        return self._network.loop

    def is_serving(self) -> bool:
        return self._serving and self.is_open

    def admits(self, source: "NetworkHost") -> bool:
        """A port that is bound and not served yet refuses, as the real one does."""
        return self.is_serving() and (not self.only_loopback or source is self._host)

    async def start_serving(self) -> None:
        self._serving = True

    async def serve_forever(self) -> None:
        self._serving = True
        try:
            self._forever = self._network.loop.create_future()
            await self._forever
        finally:
            self.close()
            await self.wait_closed()

    def accept(self, transport: SimulatedTransport) -> None:
        """Hands a new connection to the program. Runs in the context that opened the server."""
        self._connections[transport.number] = transport
        transport.start(self._factory(), lambda: self._lost(transport))

    def _lost(self, transport: SimulatedTransport) -> None:
        del self._connections[transport.number]
        self._wake()

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._host.listeners.pop(self.port, None)
            self._network.trace(self._host.name, f"port {self.port} closed")
            self._wake()

    async def wait_closed(self) -> None:
        if self.is_open or self._connections:
            waiter: asyncio.Future[None] = self._network.loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        if not self.is_open and not self._connections:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()


class NetworkHost:
    __slots__ = ("address", "is_up", "listeners", "name", "next_port", "refused", "waiting")

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.is_up = True
        self.listeners: dict[int, SimulatedServer] = {}
        self.next_port = _FIRST_EPHEMERAL_PORT
        self.refused: set[int | None] = set()
        # Attempts to connect while the host was down: their SYNs are repeated.
        self.waiting: list[Callable[[], None]] = []

    def take_port(self) -> int:
        self.next_port += 1
        return self.next_port - 1


class _Attempt:
    """A connection being made: from the first packet to the established pair of ends."""

    def __init__(
        self, network: "Network", source: NetworkHost, target: NetworkHost, port: int
    ) -> None:
        self.network = network
        self.source = source
        self.target = target
        self.port = port
        self.local_port = source.take_port()
        self.waiter: asyncio.Future[SimulatedTransport] = network.loop.create_future()
        self.context = copy_context()
        self.client: SimulatedTransport | None = None
        self.label = f"{source.name}:{self.local_port}>{target.name}:{port}"

    def start(self) -> None:
        self.network.link(self.source.name, self.target.name).carry(self._at_target)

    def _at_target(self) -> None:
        target = self.target
        if not target.is_up:
            target.waiting.append(self.start)
            return
        back = self.network.link(target.name, self.source.name)
        server = target.listeners.get(self.port)
        allowed = server is not None and server.admits(self.source)
        if not allowed or self.port in target.refused or None in target.refused:
            back.carry(self._refused)
            return
        assert server is not None
        server_end = self._make_ends(server)
        self.network.loop.call_soon(server.accept, server_end, context=server_end.context)
        back.carry(self._established)

    def _make_ends(self, server: SimulatedServer) -> SimulatedTransport:
        network, source, target = self.network, self.source, self.target
        near = (source.address, self.local_port)
        far = (target.address, self.port)
        client = SimulatedTransport(
            network,
            number=network.take_number(),
            host=source.name,
            local=near,
            remote=far,
            label=self.label,
            context=self.context,
        )
        accepted = SimulatedTransport(
            network,
            number=network.take_number(),
            host=target.name,
            local=far,
            remote=near,
            label=self.label,
            context=server.context.copy(),
        )
        there, back = network.link(source.name, target.name), network.link(target.name, source.name)
        client.outgoing = accepted.incoming = Pipe(there, back, client, accepted)
        accepted.outgoing = client.incoming = Pipe(back, there, accepted, client)
        network.transports[client.number] = client
        network.transports[accepted.number] = accepted
        self.client = client
        network.trace(target.name, f"{self.label} accepted")
        return accepted

    def _refused(self) -> None:
        if not self.waiter.done():
            self.network.trace(self.source.name, f"{self.label} refused")
            self.waiter.set_exception(
                ConnectionRefusedError(errno.ECONNREFUSED, f"{self.label} refused")
            )

    def _established(self) -> None:
        if not self.waiter.done():
            assert self.client is not None
            self.network.trace(self.source.name, f"{self.label} connected")
            self.waiter.set_result(self.client)

    def give_up(self) -> None:
        if self.client is not None:
            self.client.killed()


class Network:
    """All hosts and links. Delays and cuts apply to what is sent or arrives from then on."""

    def __init__(self, loop: SimulatedLoop, random: Random, trace: Trace) -> None:
        self.loop = loop
        self.random = random
        self.trace = trace.add
        # The context of packets: they belong to no process, so they arrive while programs are
        # stopped or dead.
        self.no_process = Context()
        self.delay_s = (0.0001, 0.001)
        self.window_bytes = 64 * 1024
        # How often bytes are cut at a random place instead of travelling together.
        self.split_probability = 0.25
        self.hosts: dict[str, NetworkHost] = {}
        self.transports: dict[int, SimulatedTransport] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._numbers = 0

    def add_host(self, name: str) -> NetworkHost:
        count = len(self.hosts) + 1
        host = self.hosts[name] = NetworkHost(name, f"10.0.{count // 250}.{count % 250}")
        return host

    def link(self, source: str, target: str) -> Link:
        key = (source, target)
        link = self._links.get(key)
        if link is None:
            delay_s = (0.00001, 0.00005) if source == target else self.delay_s
            link = self._links[key] = Link(self, delay_s)
        return link

    def take_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def forget(self, transport: SimulatedTransport) -> None:
        self.transports.pop(transport.number, None)

    def cut_size(self, size: int) -> int:
        """How many of `size` bytes stay together."""
        if size > 1 and self.random.random() < self.split_probability:
            longest = (3, 100, size)[self._below(3)]
            return 1 + self._below(min(size, longest))
        return size

    def _below(self, limit: int) -> int:
        """Draws what `random.randrange(limit)` draws, at a third of its cost: bytes are cut very
        often."""
        draw, bits = self.random.getrandbits, limit.bit_length()
        drawn = draw(bits)
        while drawn >= limit:
            drawn = draw(bits)
        return drawn

    # Called by the loop

    def _here(self) -> NetworkHost:
        process = current_process.get()
        if process is None:
            raise RuntimeError("this task belongs to no host: start it with host.start(...)")
        return self.hosts[process.host]

    def _find(self, name: str | None, here: NetworkHost) -> NetworkHost:
        if name in _LOOPBACK or name in _ANYWHERE:
            return here
        for host in self.hosts.values():
            if name in (host.name, host.address):
                return host
        raise socket.gaierror(socket.EAI_NONAME, f"no simulated host is called {name!r}")

    def resolve(self, host: Any, port: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        found = self._find(name, self._here())
        address = (found.address, int(port or 0))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)]

    async def connect(
        self,
        factory: ProtocolFactory,
        host: str | None,
        port: int | None,
        *,
        ssl: object = None,
        sock: object = None,
        **_options: Any,
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        if ssl is not None or sock is not None:
            raise NotImplementedError("the simulated network has neither TLS nor real sockets")
        here = self._here()
        there = self._find(host, here)
        assert port is not None
        attempt = _Attempt(self, here, there, port)
        self.trace(here.name, f"{attempt.label} connects")
        attempt.start()
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                transport = await attempt.waiter
        except TimeoutError:
            attempt.give_up()
            raise TimeoutError(errno.ETIMEDOUT, f"{attempt.label} timed out") from None
        except asyncio.CancelledError:
            attempt.give_up()
            raise
        protocol = factory()
        transport.start(protocol)
        # The real loop returns after `connection_made`.
        made = self.loop.create_future()
        self.loop.call_soon(_finish, made)
        await made
        return transport, protocol

    async def listen(
        self,
        factory: ProtocolFactory,
        host: Any,
        port: int | None,
        *,
        ssl: object = None,
        sock: object = None,
        start_serving: bool = True,
        **_options: Any,
    ) -> SimulatedServer:
        if ssl is not None or sock is not None:
            raise NotImplementedError("the simulated network has neither TLS nor real sockets")
        here = self._here()
        names = [host] if host is None or isinstance(host, str) else list(host)
        for name in names:
            if self._find(name, here) is not here:
                raise OSError(errno.EADDRNOTAVAIL, f"{name} is not an address of {here.name}")
        port = port or here.take_port()
        if port in here.listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} of {here.name} is in use")
        server = SimulatedServer(self, here, factory, port)
        server.only_loopback = all(name in _LOOPBACK for name in names)
        here.listeners[port] = server
        self.trace(here.name, f"port {port} open")
        if start_serving:
            await server.start_serving()
        return server

    # Faults

    def cut(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Nothing arrives at `target` from `source` until healed; nothing is lost either."""
        self.trace(source, f"cut {'<->' if both_ways else '->'} {target}")
        self.link(source, target).is_cut = True
        if both_ways:
            self.link(target, source).is_cut = True

    def heal(self, source: str, target: str) -> None:
        self.trace(source, f"healed <-> {target}")
        self.link(source, target).heal()
        self.link(target, source).heal()

    def isolate(self, name: str) -> None:
        for other in self.hosts:
            if other != name:
                self.cut(name, other)

    def heal_all(self) -> None:
        for (source, target), link in list(self._links.items()):
            if link.is_cut:
                self.trace(source, f"healed -> {target}")
                link.heal()

    def reset(self, one: str, other: str | None = None) -> int:
        """Breaks the connections of a host, or between two; both ends see a reset."""
        broken = 0
        for transport in list(self.transports.values()):
            ends = (transport.host, transport.incoming.source.host)
            if one in ends and (other is None or other in ends):
                broken += 1
                transport.broken_from_outside()
        self.trace(one, f"reset {broken // 2} connections{f' with {other}' if other else ''}")
        return broken // 2

    def refuse(self, name: str, port: int | None = None) -> None:
        """New connections to the host, or to one port of it, are refused."""
        self.hosts[name].refused.add(port)

    def admit(self, name: str) -> None:
        self.hosts[name].refused.clear()

    def set_delay(self, source: str, target: str, delay_s: tuple[float, float]) -> None:
        self.link(source, target).delay_s = delay_s
        self.link(target, source).delay_s = delay_s

    def set_bandwidth(self, source: str, target: str, bytes_per_s: float | None) -> None:
        self.link(source, target).bytes_per_s = bytes_per_s

    def close(self) -> None:
        """Drops every connection after the end of a run, without a callback."""
        for transport in self.transports.values():
            transport.vanish()
        self.transports.clear()
        self.hosts.clear()

    # Called by hosts

    def process_died(self, process: Process) -> None:
        """The host closes everything the process had open."""
        host = self.hosts[process.host]
        for port, server in list(host.listeners.items()):
            if server.context.get(current_process) is process:
                server.is_open = False
                del host.listeners[port]
        for transport in list(self.transports.values()):
            if transport.context.get(current_process) is process:
                transport.killed()

    def host_went_down(self, name: str) -> None:
        host = self.hosts[name]
        host.is_up = False
        host.listeners.clear()
        for transport in self.transports.values():
            if transport.host == name:
                transport.vanish()

    def host_came_up(self, name: str) -> None:
        host = self.hosts[name]
        host.is_up = True
        for transport in list(self.transports.values()):
            if transport.host == name:
                transport.host_is_back()
                self.forget(transport)
        waiting, host.waiting = host.waiting, []
        for start in waiting:
            start()


def _finish(future: "asyncio.Future[None]") -> None:
    """Completes the future, unless its process has given up waiting meanwhile."""
    if not future.done():
        future.set_result(None)
