"""Asks another HTTP service for JSON: a Connect worker, an OpenID provider, Prometheus.

The standard library asks, in a worker thread, with a time limit and a size limit. Redirects are not
followed: a request may carry a log-in, which belongs to the address in the settings and no other.
Certificates are checked by what the operating system trusts, or by what the caller names.
"""

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlencode

TIMEOUT_S: Final = 10.0
_MAX_BYTES: Final = 16 << 20


class HttpRefused(Exception):
    """The service answered with an error. `status` is that of HTTP, `answer` the JSON of its body,
    if it has any; the message is the service's own where it gives one."""

    def __init__(self, status: int, message: str, answer: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.answer = answer


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


async def ask_json(
    method: str,
    url: str,
    *,
    body: Any = None,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    tls: Callable[[], ssl.SSLContext] | None = None,
) -> Any:
    """Returns the JSON of the answer, or None if it is empty. `body` is sent as JSON, `form` as
    fields. `tls` says which certificates are trusted; it may read files. Raises `HttpRefused`, or
    OSError if nobody answers with JSON."""
    content, kind = None, "application/json"
    if form is not None:
        content, kind = urlencode(form).encode(), "application/x-www-form-urlencoded"
    elif body is not None:
        content = json.dumps(body).encode()
    given = {"accept": "application/json", "content-type": kind, **(headers or {})}
    request = urllib.request.Request(url, content, given, method=method)  # noqa: S310 - http(s)
    return await asyncio.to_thread(_ask, request, timeout_s, tls)


def _ask(
    request: urllib.request.Request,
    timeout_s: float,
    tls: Callable[[], ssl.SSLContext] | None = None,
) -> Any:
    opener = _OPENER
    if tls is not None and request.type == "https":
        opener = urllib.request.build_opener(
            _NoRedirects, urllib.request.HTTPSHandler(context=tls())
        )
    try:
        with opener.open(request, timeout=timeout_s) as response:
            text = response.read(_MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            answer = _json_or_none(error.read(_MAX_BYTES))
        raise HttpRefused(error.code, _message(answer) or str(error), answer) from None
    except HTTPException as error:
        raise OSError(f"the answer is not HTTP: {error}") from None
    if len(text) > _MAX_BYTES:
        raise OSError(f"the answer has more than {_MAX_BYTES} bytes")
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise OSError("the answer is not JSON") from None


def _json_or_none(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _message(answer: Any) -> str:
    """Returns the words of an error: Connect calls them `message`, OpenID providers and Prometheus
    have `error` and sometimes a description."""
    if not isinstance(answer, dict):
        return ""
    for name in ("message", "error_description", "error"):
        if isinstance(answer.get(name), str):
            return str(answer[name])
    return ""
