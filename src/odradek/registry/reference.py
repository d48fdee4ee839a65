"""The reference page of the registry: `python -m odradek.registry.reference FILE`."""

import sys
from typing import Any

from odradek import __version__
from odradek.registry.server import SchemaRegistryService
from odradek.registry.settings import SchemaRegistrySettings
from odradek.services.settings_table import settings_table
from odradek.web.openapi import openapi
from odradek.web.openapi_page import endpoints_page
from odradek.world import OsDisk, World

_HEAD = """\
# Schema registry: settings and endpoints

The settings of the [schema registry](../registry.md)'s properties file, and its HTTP interface,
which `GET /openapi.json` describes for programs. Answers and errors have the media type
`application/vnd.schemaregistry.v1+json`, unless `Accept` asks for another one of the three.

## Settings

`kafkastore.` before the name of any setting of Kafka's clients, such as
`kafkastore.security.protocol`, sets it for the clients that read and write the topic. `ssl.`
settings without that prefix are those of the HTTP listener.

"""


def described() -> dict[str, Any]:
    """Returns the OpenAPI description of the registry."""
    service = SchemaRegistryService(SchemaRegistrySettings(), World())
    return openapi(service.title, __version__, list(service.endpoints()))


def reference() -> str:
    rows = "\n".join(settings_table(SchemaRegistrySettings))
    return f"{_HEAD}{rows}\n\n{endpoints_page(described())}"


if __name__ == "__main__":
    OsDisk().replace(sys.argv[1], reference().encode())
