"""A stand-in for the transit engine of Vault and OpenBao, for tests: the part of its HTTP API that
`odradek.security.keys.vault` uses, with its status codes and texts. It is not Vault: no policies
but one switch, nothing on a disk.

Real servers were not to be had for tests: they are in none of the package registries that tests may
use, and the module of Vault takes longer to build than the whole test run.
"""

import base64
import json
import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


class Transit:
    """What the server keeps, and switches for tests."""

    def __init__(self) -> None:
        self.keys: dict[str, dict[int, bytes]] = {}
        self.deletable: set[str] = set()
        self.tokens = {"root"}
        self.role = ("role", "secret")
        self.namespace: str | None = None
        self.is_sealed = False
        self.requests: list[str] = []
        self.url = ""

    def answer(  # noqa: PLR0911 - one for each case
        self, method: str, path: str, headers: Any, body: Any
    ) -> tuple[int, Any]:
        self.requests.append(f"{method} {path}")
        if self.is_sealed:
            return 503, {"errors": ["Vault is sealed"]}
        if headers.get("X-Vault-Namespace") != self.namespace:
            return 404, {"errors": ["no handler for route"]}
        if path == "/v1/auth/approle/login":
            if (body["role_id"], body["secret_id"]) != self.role:
                return 400, {"errors": ["invalid role or secret ID"]}
            token = secrets.token_hex(8)
            self.tokens.add(token)
            return 200, {"auth": {"client_token": token}}
        if headers.get("X-Vault-Token") not in self.tokens:
            return 403, {"errors": ["permission denied"]}
        parts = path.removeprefix("/v1/transit/").split("/")
        if parts[0].startswith("keys"):
            return self._keys(method, parts, body)
        return self._crypt(parts[0], parts[1], body["batch_input"])

    def _keys(  # noqa: PLR0911 - one for each case
        self, method: str, parts: list[str], body: Any
    ) -> tuple[int, Any]:
        if parts[0] == "keys?list=true":
            if not self.keys:
                return 404, {"errors": []}
            return 200, {"data": {"keys": sorted(self.keys)}}
        name = parts[1]
        if method == "POST" and len(parts) == 2:
            self.keys.setdefault(name, {1: secrets.token_bytes(32)})
            return 204, None
        if name not in self.keys:
            return 404, {"errors": []}
        versions = self.keys[name]
        if method == "GET":
            created = {str(version): 1_700_000_000 + version for version in versions}
            return 200, {"data": {"keys": created, "latest_version": max(versions)}}
        if method == "DELETE":
            if name not in self.deletable:
                return 400, {"errors": ["deletion is not allowed for this key"]}
            del self.keys[name]
        elif parts[2] == "rotate":
            versions[max(versions) + 1] = secrets.token_bytes(32)
        elif body["deletion_allowed"]:
            self.deletable.add(name)
        return 204, None

    def _crypt(self, action: str, name: str, batch: list[dict[str, str]]) -> tuple[int, Any]:
        if name not in self.keys:
            if action == "decrypt":
                return 400, {"errors": ["encryption key not found"]}
            self.keys[name] = {1: secrets.token_bytes(32)}  # As Vault does.
        results = [getattr(self, f"_{action}")(self.keys[name], item) for item in batch]
        failed = all("error" in result for result in results)
        return 400 if failed else 200, {"data": {"batch_results": results}}

    def _encrypt(self, versions: dict[int, bytes], item: dict[str, str]) -> dict[str, str]:
        version, nonce = max(versions), secrets.token_bytes(12)
        data = nonce + AESGCM(versions[version]).encrypt(
            nonce, base64.b64decode(item["plaintext"]), None
        )
        return {"ciphertext": f"vault:v{version}:{base64.b64encode(data).decode()}"}

    def _decrypt(self, versions: dict[int, bytes], item: dict[str, str]) -> dict[str, str]:
        try:
            _, version, text = item["ciphertext"].split(":")
            data = base64.b64decode(text)
            plain = AESGCM(versions[int(version[1:])]).decrypt(data[:12], data[12:], None)
        except (ValueError, KeyError, InvalidTag):
            return {"error": "invalid ciphertext: unable to decrypt"}
        return {"plaintext": base64.b64encode(plain).decode()}


@contextmanager
def transit(context: ssl.SSLContext | None = None) -> Iterator[Transit]:
    """A server on loopback, until the block ends."""
    found = Transit()

    class Handler(BaseHTTPRequestHandler):
        def _respond(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = found.answer(self.command, self.path, self.headers, body)
            content = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _respond  # noqa: N815 - names of the base class

        def log_message(self, *_: object) -> None:
            """Tests print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "http" if context is None else "https"
    found.url = f"{scheme}://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
