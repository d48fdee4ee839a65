"""A TLS handshake between two contexts in memory, without sockets."""

import ssl
from contextlib import suppress


def shake_hands(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Returns both ends after a handshake and a byte in both directions. Raises `ssl.SSLError`."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = server.wrap_bio(to_server, to_client, server_side=True)
    far = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(5):
        for side in (far, near):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    for sender, receiver in ((far, near), (near, far)):
        sender.write(b"x")
        assert receiver.read(1) == b"x"
    return near, far
