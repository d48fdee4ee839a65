"""Asks a worker over HTTP: the errors of a worker become those of a command."""

import argparse
import http.client
import json
import os
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlsplit

from odradek.cli.connect.connect import DEFAULT_WORKER, VARIABLE
from odradek.cli.http_address import HttpAddress, basic_log_in
from odradek.tools.failures import CommandFailed, UsageError
from odradek.tools.hints import hint_if_silent

_TIMEOUT_S: Final = 100.0
_BUSY_S: Final = 30.0
_AGAIN_S: Final = 0.3


class WorkerClient:
    def __init__(self, url: str, ca: str | None = None) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"{url} is not a URL such as {DEFAULT_WORKER}")
        self._address = HttpAddress(parts, 8083, ca)
        self.url = f"{parts.scheme}://{self._address.host}:{self._address.port}"
        self._headers = {"accept": "application/json"}
        if parts.username is not None:
            log_in = basic_log_in(parts.username, parts.password or "")
            self._headers["authorization"] = log_in

    def beside(self, worker_id: str) -> "WorkerClient":
        """Returns a client of another worker of the group, with the same log-in."""
        scheme = self.url.partition(":")[0]
        other = WorkerClient(f"{scheme}://{worker_id}")
        other._address.context, other._headers = self._address.context, self._headers
        return other

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Returns the JSON of an answer, None if it has none. Waits while workers share out their
        work, which they say by 409."""
        deadline_s = time.monotonic() + _BUSY_S
        while True:
            status, text = self._exchange(method, path, body)
            if status == 409 and "rebalance" in text and time.monotonic() < deadline_s:
                time.sleep(_AGAIN_S)
                continue
            if status >= 400:
                raise CommandFailed(self._message(status, text))
            try:
                return json.loads(text) if text else None
            except ValueError:
                raise CommandFailed(
                    f"{self.url} is not a worker of Connect: {text[:80]!r}"
                ) from None

    def _exchange(self, method: str, path: str, body: object) -> tuple[int, str]:
        connection = self._address.connection(_TIMEOUT_S)
        try:
            with hint_if_silent(self.url, "a worker of Connect"):
                response = self._send(connection, method, path, body, {})
            return response.status, response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()

    def events(self, path: str) -> Iterator[Any]:
        """Yields the events of a stream, until the worker ends it."""
        connection = self._address.connection(None)
        try:
            response = self._send(connection, "GET", path, None, {"accept": "text/event-stream"})
            if response.status >= 400:
                text = response.read().decode("utf-8", "replace")
                raise CommandFailed(self._message(response.status, text))
            for line in response:
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        finally:
            connection.close()

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: object,
        headers: dict[str, str],
    ) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body)
        given = {**self._headers, **headers}
        if data is not None:
            given["content-type"] = "application/json"
        connection.request(method, path, data, given)
        return connection.getresponse()

    def _message(self, status: int, text: str) -> str:
        """Returns what an answer says is wrong; asks whether it is one of another service."""
        try:
            said = str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError):
            said = "a page of HTML" if text.lstrip().startswith("<") else text[:200] or "nothing"
        else:
            if not (status == 404 and said.startswith("there is no /")):
                return said
        return (
            f"{self.url} answered {status}: {said}; is it a worker of Connect? If not, name one"
            f" with --worker URL or ${VARIABLE}"
        )

    def _unreachable(self, error: Exception) -> CommandFailed:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return CommandFailed(
            f"no worker answers at {self.url}: {reason}; say where one is with --worker URL or"
            f" ${VARIABLE}, or start one: odradek connect-standalone"
            " config/connect-standalone.properties"
        )


def client_of(arguments: argparse.Namespace) -> WorkerClient:
    url = arguments.worker or os.environ.get(VARIABLE) or DEFAULT_WORKER
    return WorkerClient(url, arguments.ca)


def path_of(name: str, *more: str) -> str:
    return "/".join(("/connectors", quote(name, safe=""), *more))
