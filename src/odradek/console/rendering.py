"""Makes HTML of templates, with the headers that every page has.

Jinja2 escapes every value that a template shows; no template marks anything as safe. The policy for
content (CSP) allows scripts and styles from this server's own files alone and none within a page,
so even a value that slipped through would not run.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse, Response

from odradek.console.records.decoding import visible
from odradek.wording import counted
from odradek.world.disk import OsDisk

_HERE: Final = os.path.dirname(__file__)
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With `no-referrer` browsers would send forms with `Origin: null`.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_PAGE_HEADERS: Final = {**HEADERS, "cache-control": "no-store"}
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_STATIC_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Renderer:
    """The templates of a console."""

    def __init__(self) -> None:
        self.static = StaticFiles()
        self._environment = Environment(
            loader=FileSystemLoader(os.path.join(_HERE, "templates")),
            autoescape=select_autoescape(default=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "number": number,
            "size": size,
            "rate": rate,
            "decimal": decimal,
            "duration": duration,
            "counted": counted,
            "iso": iso,
            "moment": moment,
            "path": path_segment,
            "pretty": pretty,
            "visible": visible,
        }
        self._environment.globals |= {"asset": self.static.url, "query": query}

    def page(self, template: str, context: Mapping[str, Any], status: int = 200) -> Response:
        html = self._environment.get_template(template).render(context)
        return HTMLResponse(html, status, _PAGE_HEADERS)


class StaticFiles:
    """The files beside the pages, read once. Their URLs have a part of their hash, so browsers keep
    them for good and a new version has another URL."""

    def __init__(self) -> None:
        disk, directory = OsDisk(), os.path.join(_HERE, "static")
        self._files: dict[str, bytes] = {}
        self._tags: dict[str, str] = {}
        for name in sorted(disk.list_directory(directory)):
            if name.rpartition(".")[2] in _STATIC_TYPES:
                content = disk.read(os.path.join(directory, name))
                self._files[name] = content
                self._tags[name] = hashlib.sha256(content).hexdigest()[:12]

    def url(self, name: str) -> str:
        return f"/static/{name}?v={self._tags[name]}"

    def response(self, name: str) -> Response | None:
        content = self._files.get(name)
        if content is None:
            return None
        headers = {**HEADERS, "cache-control": "public, max-age=31536000, immutable"}
        return Response(content, 200, headers, _STATIC_TYPES[name.rpartition(".")[2]])


def query(given: Mapping[str, Any], **changes: Any) -> str:
    """Returns a query string with some of its values replaced; None takes one away."""
    merged = {**given, **changes}
    kept = {name: value for name, value in merged.items() if value not in (None, "")}
    return f"?{urlencode(kept, doseq=True)}"


def path_segment(text: object) -> str:
    """Returns a name as a part of a path: a slash in it separates nothing."""
    return quote(str(text), safe="")


# Numbers and times


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{round(value):,}"


def decimal(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def size(value: float | None) -> str:
    """Returns bytes in units of thousands, as disks are sold and networks are measured."""
    if value is None or value < 0:
        return "–"
    amount = float(value)
    for unit in _UNITS:
        if amount < 1000 or unit == _UNITS[-1]:
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"


def rate(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else "0 s"
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def iso(at_ms: float) -> str:
    return _utc(at_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(at_ms: float) -> str:
    return _utc(at_ms).strftime("%Y-%m-%d %H:%M:%S")


def _utc(at_ms: float) -> datetime:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)
