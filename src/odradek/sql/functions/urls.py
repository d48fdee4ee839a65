"""Functions of URLs, by RFC 3986. What is no URL gives null."""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote_plus, unquote, unquote_plus, urlsplit

from odradek.sql.functions.declaring import Subject

SUBJECT: Final = Subject("URLs")
scalar = SUBJECT.scalar
_ALLOWED: Final = re.compile(
    r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2}|[^\x00-\x7f])*"
)


def _split(url: str) -> SplitResult | None:
    if not _ALLOWED.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _part(name: str, doc: str, read: Callable[[SplitResult], str | int | None], kind: str) -> None:
    def extract(url: str) -> str | int | None:
        parts = _split(url)
        return None if parts is None else read(parts)

    SUBJECT.add(name, extract, f"STRING -> {kind}", doc=doc)


def _decoded(text: str | None) -> str | None:
    return unquote(text) if text else None


_part("URL_EXTRACT_FRAGMENT", "Returns what follows # in a URL.",
      lambda parts: _decoded(parts.fragment), "STRING")  # fmt: skip
_part("URL_EXTRACT_HOST", "Returns the host of a URL.", lambda parts: parts.hostname, "STRING")
_part("URL_EXTRACT_PATH", "Returns the path of a URL; empty if there is none.",
      lambda parts: unquote(parts.path), "STRING")  # fmt: skip
_part("URL_EXTRACT_PORT", "Returns the port of a URL, if it is given.",
      lambda parts: parts.port, "INTEGER")  # fmt: skip
_part("URL_EXTRACT_PROTOCOL", "Returns the scheme of a URL.",
      lambda parts: parts.scheme or None, "STRING")  # fmt: skip
_part("URL_EXTRACT_QUERY", "Returns what follows ? in a URL.",
      lambda parts: _decoded(parts.query), "STRING")  # fmt: skip


@scalar("URL_EXTRACT_PARAMETER", "STRING, STRING -> STRING")
def url_extract_parameter(url: str, name: str) -> str | None:
    """Returns the value of a parameter of a URL."""
    parts = _split(url)
    if parts is None:
        return None
    return next((value for key, value in parse_qsl(parts.query) if key == name), None)


@scalar("URL_DECODE_PARAM", "STRING -> STRING")
def url_decode_param(text: str) -> str:
    """Decodes a parameter of a URL."""
    return unquote_plus(text)


@scalar("URL_ENCODE_PARAM", "STRING -> STRING")
def url_encode_param(text: str) -> str:
    """Encodes a text for use as a parameter of a URL."""
    # As Java's URLEncoder: the tilde is encoded, and the asterisk is not.
    return quote_plus(text, safe="*").replace("~", "%7E")
