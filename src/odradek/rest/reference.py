"""Writes docs/reference/rest.md from the endpoints of the proxy and its settings.

python -m odradek.rest.reference docs/reference/rest.md
"""

import re
import sys
from collections.abc import Iterator

from odradek.rest.settings import RestSettings
from odradek.services.settings_table import cell, settings_table, shown_default
from odradek.web.endpoints import Endpoint
from odradek.world.disk import OsDisk

_OPENING = """\
# Reference: the REST proxy

Written from the code: `python -m odradek.rest.reference docs/reference/rest.md`.
[The guide](../rest.md) explains it with examples. A running proxy describes itself at
`/openapi.json` (OpenAPI 3.1).

Every endpoint may also answer 401 (code 40101: log in), 403 (40301: the brokers refuse), 406, 421,
503 and 504; those with a body or a parameter 400, 413 and 415. An error is
`{"error_code": ..., "message": ...}`.
"""


def endpoints() -> list[Endpoint]:
    """Returns the endpoints of a proxy with default settings."""
    from odradek.rest.service import RestService  # noqa: PLC0415 - it needs the extra `web`

    return list(RestService(RestSettings()).endpoints())


def reference() -> str:
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield _OPENING
    for title, is_in in (
        ("Version 3", lambda path: path.startswith("/v3")),
        ("Version 2", lambda path: not path.startswith("/v3")),
    ):
        yield f"## {title}\n"
        yield "| endpoint | what it does | answers |"
        yield "|---|---|---|"
        for endpoint in endpoints():
            if is_in(endpoint.path):
                yield _row(endpoint)
        yield ""
    yield "## Parameters of requests\n"
    yield "| endpoint | parameter | default | meaning |"
    yield "|---|---|---|---|"
    for endpoint in endpoints():
        for parameter in endpoint.parameters:
            yield (
                f"| `{endpoint.method} {_path(endpoint)}` | `{parameter.name}` |"
                f" {'' if parameter.default is None else shown_default(parameter.default)} |"
                f" {cell(parameter.doc)} |"
            )
    yield "\n## Settings (kafka-rest.properties)\n"
    yield "Settings that begin with `client.` go to all Kafka clients of the proxy, and those with"
    yield "`admin.`, `consumer.` or `producer.` to these; `ssl.keystore.*` and `ssl.truststore.*`"
    yield "are for an https listener. [Their names](client-settings.md) are Kafka's.\n"
    yield from settings_table(RestSettings)
    yield "\nThese are refused, with the reason:\n"
    for name, reason in sorted(RestSettings.refused.items()):
        yield f"- `{name}`: {reason}"
    names = ", ".join(f"`{name}`" for name in sorted(RestSettings.no_effect))
    yield f"\nThese change nothing here, and are announced if they would elsewhere: {names}."


def _row(endpoint: Endpoint) -> str:
    statuses = ", ".join(str(status) for status in sorted(endpoint.responses))
    summary = cell(endpoint.summary)
    return f"| `{endpoint.method} {_path(endpoint)}` | {summary} | {statuses} |"


def _path(endpoint: Endpoint) -> str:
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", endpoint.path)


if __name__ == "__main__":
    OsDisk().replace(sys.argv[1], reference().encode())
