"""The action of `odradek recipe` for recipes without Spark: runs one on brokers of its own."""

import asyncio
import logging
import sys
from importlib import import_module

from odradek.recipes import module_of
from odradek.world import SystemClock


def play_without_spark(name: str) -> int:
    # Recipes kill brokers on purpose; that one cannot be reached then is no news.
    logging.getLogger("odradek.client").setLevel(logging.ERROR)
    if sys.stderr.isatty():
        print("starting brokers ...", file=sys.stderr, flush=True)
    clock = SystemClock()
    begun_s = clock.monotonic_s()
    asyncio.run(import_module(module_of(name)).run(lambda line: print(line, flush=True)))
    print(f"{name}: done in {clock.monotonic_s() - begun_s:.0f} s")
    return 0
