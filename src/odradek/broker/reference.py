"""The reference page of the APIs a broker serves: `python -m odradek.broker.reference FILE`."""

import sys
from importlib import import_module

from odradek.broker.handlers import TABLE
from odradek.protocol.apis import APIS
from odradek.world import OsDisk

_HEAD = """\
# APIs

What a broker serves, and so what ApiVersions advertises. The line is that of the handler, which
says more.

| key | API | versions | flexible from | what it does |
|---|---|---|---|---|
"""


def reference() -> str:
    return _HEAD + "".join(map(_row, sorted(TABLE)))


def _row(key: int) -> str:
    served, api = TABLE[key], APIS[key]
    doc = import_module(f"odradek.broker.handlers.{served.module}").__doc__ or ""
    line = doc.partition("\n\n")[0].partition(": ")[2].replace("\n", " ").strip()
    flexible = api.flexible_from if api.flexible_from <= served.highest else "never"
    name = f"[{api.name}](../../src/odradek/broker/handlers/{served.module}.py)"
    return f"| {key} | {name} | {served.lowest} to {served.highest} | {flexible} | {line} |\n"


if __name__ == "__main__":
    OsDisk().replace(sys.argv[1], reference().encode())
