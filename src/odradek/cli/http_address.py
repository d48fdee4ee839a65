"""An HTTP service as a user names it on the command line: `https://user:password@host:port`."""

import base64
import http.client
import ssl
from urllib.parse import SplitResult, unquote

from odradek.tools.failures import CommandFailed


class HttpAddress:
    """Where a service is, and how its certificate is checked. `ca` is the file of `--ca`, with the
    certificates that are trusted in place of the system's."""

    def __init__(self, parts: SplitResult, default_port: int, ca: str | None) -> None:
        """The caller has checked the scheme and the host."""
        self.host = parts.hostname or ""
        self.port = parts.port or default_port
        self.context: ssl.SSLContext | None = None
        if parts.scheme == "https":
            try:
                self.context = ssl.create_default_context(cafile=ca)
            except OSError as error:
                raise CommandFailed(f"--ca {ca}: {error.strerror or error}") from None

    def connection(self, timeout_s: float | None) -> http.client.HTTPConnection:
        if self.context is not None:
            return http.client.HTTPSConnection(
                self.host, self.port, timeout=timeout_s, context=self.context
            )
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)


def basic_log_in(user: str, password: str) -> str:
    """Returns the header `Authorization` for a user and password of a URL."""
    pair = f"{unquote(user)}:{unquote(password)}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
