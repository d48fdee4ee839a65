"""HTTP/2 beside HTTP/1.1 on one port: by ALPN with TLS, by the client's first bytes without.

Imported only by a service that asks for HTTP/2, which needs the extra `http2`.
"""

import asyncio

from uvicorn.protocols.http.auto_zttp_impl import AutoZttpProtocol
from uvicorn.protocols.http.zttp_h2_impl import ZttpH2Protocol
from uvicorn.protocols.http.zttp_impl import ZttpProtocol

from odradek.web.serving import _peer, _WithPeer


class _Http2(ZttpH2Protocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if certificate := _peer(transport):
            self.app = _WithPeer(self.app, certificate)


class _Http1(ZttpProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if certificate := _peer(transport):
            self.app = _WithPeer(self.app, certificate)


class Http2OrHttp1(AutoZttpProtocol):
    def _switch(self, http2: bool, initial_data: bytes = b"") -> None:
        protocol_class = _Http2 if http2 else _Http1
        protocol = protocol_class(
            config=self.config,
            server_state=self.server_state,
            app_state=self.app_state,
            _loop=self.loop,
        )
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if initial_data:
            protocol.data_received(initial_data)
