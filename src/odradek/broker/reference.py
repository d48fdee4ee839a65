"""The reference page of the APIs a broker serves: `python -m odradek.broker.reference FILE`."""

import sys
from importlib import import_module

from odradek.broker import handlers
from odradek.protocol.apis import AnyApi
from odradek.world import OsDisk

_HEAD = """\
# APIs

What a broker serves, and so what ApiVersions advertises. The line is that of the handler, which
says more.

| key | API | versions | flexible from | what it does |
|---|---|---|---|---|
"""


def reference() -> str:
    return _HEAD + "".join(map(_row, handlers.served_apis().values()))


def _row(api: AnyApi) -> str:
    doc = import_module(f"{handlers.__name__}.{api.module_name}").__doc__ or ""
    line = doc.partition("\n\n")[0].partition(": ")[2].replace("\n", " ").strip()
    flexible = api.flexible_from if api.flexible_from <= api.max_version else "never"
    name = f"[{api.name}](../../src/odradek/broker/handlers/{api.module_name}.py)"
    return (
        f"| {api.key} | {name} | {api.min_version} to {api.max_version} | {flexible} | {line} |\n"
    )


if __name__ == "__main__":
    OsDisk().replace(sys.argv[1], reference().encode())
