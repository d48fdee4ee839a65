"""SQL functions of URLs (RFC 3986), as Java parses them. For a text that is not a URL they raise
`ValueError`, so that their result is null."""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, unquote, unquote_plus

from odradek.sql.functions.declaring import Subject

SUBJECT: Final = Subject("URLs")
scalar = SUBJECT.scalar
_ALLOWED: Final = re.compile(
    r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2}|[^\x00-\x7f])*"
)
_PARTS: Final = re.compile(
    r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_HOST: Final = re.compile(
    r"(?:[^@]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.\-]*[A-Za-z0-9])?\.?)(?::(\d*))?"
)
_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class _Url(NamedTuple):
    """The parts of a URL; None for a part that it does not have."""

    scheme: str | None
    host: str | None
    port: int | None
    path: str | None
    query: str | None
    fragment: str | None


def _split(url: str) -> _Url:
    """Returns the decoded parts of a URL. Raises `ValueError` if the text is not a URL."""
    if not url or not _ALLOWED.fullmatch(url):
        raise ValueError(f"{url!r} is not a URL")
    match = _PARTS.fullmatch(url)
    assert match is not None
    scheme, authority, path, query, fragment = match.groups()
    if scheme is not None and not _SCHEME.fullmatch(scheme):
        raise ValueError(f"{url!r} is not a URL: {scheme!r} is not a scheme")
    is_opaque = scheme is not None and authority is None and not path.startswith("/")
    named = None if authority is None else _HOST.fullmatch(authority)
    return _Url(
        scheme,
        None if named is None else named[1],
        int(named[2]) if named is not None and named[2] else None,
        None if is_opaque else unquote(path),
        None if query is None or is_opaque else unquote(query),
        None if fragment is None else unquote(fragment),
    )


def _part(name: str, doc: str, read: Callable[[_Url], Any], kind: str = "STRING") -> None:
    SUBJECT.add(name, lambda url: read(_split(url)), f"STRING -> {kind}", doc=doc)


_part(
    "URL_EXTRACT_FRAGMENT",
    "Returns the fragment of a URL: the part after #.",
    lambda url: url.fragment,
)
_part("URL_EXTRACT_HOST", "Returns the host of a URL.", lambda url: url.host)
_part("URL_EXTRACT_PATH", "Returns the path of a URL; empty if there is none.",
      lambda url: url.path)  # fmt: skip
_part("URL_EXTRACT_PORT", "Returns the port of a URL, null without one.", lambda url: url.port,
      "INTEGER")  # fmt: skip
_part("URL_EXTRACT_PROTOCOL", "Returns the scheme of a URL.", lambda url: url.scheme)
_part("URL_EXTRACT_QUERY", "Returns the query of a URL: the part after ?.", lambda url: url.query)


@scalar("URL_EXTRACT_PARAMETER", "STRING, STRING -> STRING")
def url_extract_parameter(url: str, name: str) -> str | None:
    """Returns the value of a parameter of a URL: null if the URL does not have the parameter,
    empty if the parameter has no value."""
    query = _split(url).query
    for pair in () if query is None else query.split("&"):
        key, _, value = pair.partition("=")
        if key == name:
            return value
    return None


@scalar("URL_DECODE_PARAM", "STRING -> STRING")
def url_decode_param(text: str) -> str:
    """Decodes a string from the form that it has as a parameter of a URL."""
    if _ESCAPE.search(text):
        raise ValueError(f"{text!r} has a % without two hexadecimal digits")
    return unquote_plus(text)


@scalar("URL_ENCODE_PARAM", "STRING -> STRING")
def url_encode_param(text: str) -> str:
    """Encodes a string for use as a parameter of a URL."""
    # Java's URLEncoder encodes the tilde, and not the asterisk.
    return quote_plus(text, safe="*").replace("~", "%7E")
