"""A connection by hand to a secured listener: frames, and the steps of a log-in in any order."""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from odradek.broker import Broker
from odradek.protocol.headers import encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.protocol.schema import Request, Response

R = TypeVar("R", bound=Response)


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def send_frame(self, body: bytes) -> None:
        self.writer.write(struct.pack(">i", len(body)) + body)
        await self.writer.drain()

    async def receive_frame(self) -> bytes:
        size = struct.unpack(">i", await self._reader.readexactly(4))[0]
        return await self._reader.readexactly(size)

    async def send(self, request: Request, version: int) -> None:
        for part in encode_request(request, version, 7, "wire"):
            assert isinstance(part, bytes | bytearray | memoryview)
            self.writer.write(part)
        await self.writer.drain()

    async def ask(self, request: Request, response: type[R], version: int) -> R:
        """Only for versions that are not flexible: the header of their answers has no tags."""
        await self.send(request, version)
        frame = await self.receive_frame()
        assert struct.unpack(">i", frame[:4])[0] == 7
        return response.decode(frame, version, 4)

    async def receive_some(self) -> bytes:
        return await self._reader.read(1 << 16)

    async def is_closed(self) -> bool:
        """Waits until the broker closes without another byte."""
        async with asyncio.timeout(10):
            try:
                return await self._reader.read(1) == b""
            except (ConnectionError, ssl.SSLError):
                return True

    async def is_closed_after_alert(self) -> bool:
        """Waits until the broker closes; a TLS alert, a few bytes, may come first."""
        async with asyncio.timeout(10):
            try:
                return len(await self._reader.read()) < 16
            except ConnectionError:
                return True

    async def versions(self) -> ApiVersionsResponse:
        return await self.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
        request = SaslHandshakeRequest(mechanism=mechanism)
        return await self.ask(request, SaslHandshakeResponse, version)

    async def authenticate(self, token: bytes) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=token)
        return await self.ask(request, SaslAuthenticateResponse, 1)

    async def log_in(self, user: str = "alice", password: str = "secret") -> int:
        """Returns the error code of a log-in by PLAIN."""
        assert not (await self.handshake()).error_code
        return (await self.authenticate(f"\0{user}\0{password}".encode())).error_code

    async def metadata(self) -> MetadataResponse:
        return await self.ask(MetadataRequest(topics=[]), MetadataResponse, 4)


@asynccontextmanager
async def wire(broker: Broker, tls: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
    host, _, port = broker.bootstrap.rpartition(":")
    reader, writer = await asyncio.open_connection(
        host, int(port), ssl=tls, server_hostname="localhost" if tls else None
    )
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


def listener(protocol: str, **more: str) -> Mapping[str, str]:
    """The properties of a broker with one listener, which is called MAIN."""
    named = {
        f"listener.name.main.{name.replace('__', '-').replace('_', '.')}": text
        for name, text in more.items()
    }
    return {
        "listeners": "MAIN://127.0.0.1:0",
        "listener.security.protocol.map": f"MAIN:{protocol}",
        "connection.failed.authentication.delay.ms": "20",
        **named,
    }
