"""The reference page of the APIs a broker serves: `python -m odradek.broker.reference FILE`."""

import sys
from importlib import import_module

from odradek.broker import handlers
from odradek.protocol.apis import AnyApi
from odradek.world import OsDisk

_HEAD = """\
# APIs

The APIs that a broker serves and that ApiVersions advertises. The links lead to the handlers,
which say more. The permission is asked for if there is an authorizer (`authorizer.class.name`).

| key | API | versions | flexible from | permission | what it does |
|---|---|---|---|---|---|
"""


def reference() -> str:
    return _HEAD + "".join(map(_row, handlers.served_apis().values()))


def _row(api: AnyApi) -> str:
    handler = handlers.find_handler(api.key)
    assert handler is not None  # It is served.
    doc = import_module(f"{handlers.__name__}.{api.module_name}").__doc__ or ""
    line = doc.partition("\n\n")[0].partition(": ")[2].replace("\n", " ").strip()
    flexible = api.flexible_from if api.flexible_from <= api.max_version else "never"
    name = f"[{api.name}](../../src/odradek/broker/handlers/{api.module_name}.py)"
    versions = f"{api.min_version} to {api.max_version}"
    permission = handler.permission.description
    return f"| {api.key} | {name} | {versions} | {flexible} | {permission} | {line} |\n"


if __name__ == "__main__":
    OsDisk().replace(sys.argv[1], reference().encode())
