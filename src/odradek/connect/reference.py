"""The reference page of Connect: `python -m odradek.connect.reference FILE`."""

import sys
from typing import Any, Final

from odradek import __version__
from odradek.connect.worker.server import ConnectService
from odradek.connect.worker.settings import (
    NO_EFFECT,
    DistributedSettings,
    StandaloneSettings,
    WorkerSettings,
)
from odradek.services.settings_table import settings_table
from odradek.web.openapi import openapi
from odradek.web.openapi_page import endpoints_page
from odradek.world import OsDisk, World

_HEAD: Final = """\
# Connect: settings and endpoints of a worker

The settings of a [worker](../connect.md)'s properties file, and its HTTP interface, which
`GET /openapi.json` describes for programs. Both have the names of Kafka Connect.

## Settings

Beside these, a file may have every [setting of Kafka's clients](client-settings.md): without a
prefix for the worker and its connectors, with `producer.`, `consumer.` or `admin.` for the clients
of connectors. `key.converter.`, `value.converter.` and `header.converter.` begin the settings of
converters, `config.storage.`, `offset.storage.` and `status.storage.` those of the internal topics,
`listeners.https.ssl.` those of an https listener, `spark.` those of Spark
([what runs connectors](../connect-engines.md)).

"""


def described() -> dict[str, Any]:
    """Returns the OpenAPI description of a worker."""
    service = ConnectService(DistributedSettings(), World())
    return openapi(service.title, __version__, list(service.endpoints()))


def reference() -> str:
    shared = set(WorkerSettings.declared())
    distributed = set(DistributedSettings.declared()) - shared
    standalone = set(StandaloneSettings.declared()) - shared
    unused = ", ".join(f"`{name}`" for name in sorted(NO_EFFECT))
    return (
        f"{_HEAD}{_rows(WorkerSettings, shared)}"
        f"\n### Of `connect-distributed`\n\n{_rows(DistributedSettings, distributed)}"
        f"\n### Of `connect-standalone`\n\n{_rows(StandaloneSettings, standalone)}"
        "\nThese settings of Kafka Connect change nothing here, and are announced if they would"
        f" elsewhere: {unused}.\n\n{endpoints_page(described())}"
    )


def _rows(kind: type[WorkerSettings], names: set[str]) -> str:
    return "\n".join(settings_table(kind, names)) + "\n"


if __name__ == "__main__":
    OsDisk().replace(sys.argv[1], reference().encode())
