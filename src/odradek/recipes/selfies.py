"""Selfies in, merchandise out: a story of three brokers and three stores, and what survives.

People post selfies with a hashtag, which is the key: selfies with the same hashtag are in the same
partition, in order. The topic has three partitions on three brokers, and a selfie counts when two
brokers have it. Three stores share the partitions as a group. Each makes something of a selfie (a
mug, a poster), writes that to the topic `merchandise`, and commits.

Then a store burns down. Its partition waits until the group notices that the store is silent
(`session.timeout.ms`); then another store takes it over, from the last commit. A broker is killed:
another one leads its partitions. At last both come back. Every selfie becomes merchandise.
"""

import asyncio
import json
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from odradek.client import Admin, Consumer, Producer
from odradek.recipes.charts import Bars
from odradek.recipes.selfie_store import GROUP, MERCHANDISE, SELFIES
from odradek.testing import Cluster

_STORES: Final = ("Berlin", "Lima", "Osaka")
_BURNS: Final = "Lima"
_HASHTAGS: Final = ("#cat", "#dog", "#sea", "#sun", "#tea", "#art", "#run", "#sky", "#fun", "#pie")
_A_DAY: Final = 60
_SETTINGS: Final = {"group.min.session.timeout.ms": "1000"}
_DEADLINE_S: Final = 60

_Process = subprocess.Popen[bytes]


class Warehouse:
    """Counts what the stores have made: of each selfie, and by each store."""

    def __init__(self) -> None:
        self.of_selfie: Counter[int] = Counter()
        self.by_store: Counter[str] = Counter()
        self._arrived = asyncio.Event()

    async def receive(self, servers: str) -> None:
        async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([(MERCHANDISE, 0)])
            async for record in consumer:
                made = json.loads(record.value)
                self.of_selfie[made["selfie"]] += 1
                self.by_store[made["store"]] += 1
                self._arrived.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(_DEADLINE_S):
            while not condition():
                self._arrived.clear()
                await self._arrived.wait()


async def run(print_line: Callable[[str], None]) -> None:
    stores: dict[str, _Process] = {}
    async with Cluster(brokers=3, settings=_SETTINGS) as brokers:
        await brokers.create_topic_async(SELFIES, partitions=3)
        await brokers.create_topic_async(MERCHANDISE)
        warehouse = Warehouse()
        receiving = asyncio.create_task(warehouse.receive(brokers.bootstrap))
        try:
            await _tell(brokers, stores, warehouse, print_line)
        finally:
            receiving.cancel()
            for store in stores.values():
                store.kill()
                store.wait()
    _show(warehouse, print_line)


async def _tell(
    brokers: Cluster,
    stores: dict[str, _Process],
    warehouse: Warehouse,
    print_line: Callable[[str], None],
) -> None:
    servers = brokers.bootstrap
    for name in _STORES:
        stores[name] = _open_store(servers, name)
    await _until_members(servers, len(_STORES))
    print_line(f"the stores are open: {', '.join(_STORES)} share the 3 partitions of {SELFIES}")

    await _post(servers, range(_A_DAY))
    await warehouse.until(lambda: warehouse.by_store[_BURNS] > 0)
    stores[_BURNS].kill()
    stores[_BURNS].wait()
    print_line(f"day 1: {_A_DAY} selfies, and the store in {_BURNS} burns down")
    await warehouse.until(lambda: len(warehouse.of_selfie) == _A_DAY)
    print_line("       the others took over its partition: every selfie became merchandise")

    brokers.kill(1)
    await _post(servers, range(_A_DAY, 2 * _A_DAY))
    await warehouse.until(lambda: len(warehouse.of_selfie) == 2 * _A_DAY)
    print_line("day 2: broker 1 was killed; another one led, and nothing was lost")

    brokers.restart(1)
    stores[_BURNS] = _open_store(servers, _BURNS)
    await _until_members(servers, len(_STORES))
    before = warehouse.by_store[_BURNS]
    await _post(servers, range(2 * _A_DAY, 3 * _A_DAY))
    await warehouse.until(
        lambda: len(warehouse.of_selfie) == 3 * _A_DAY and warehouse.by_store[_BURNS] > before
    )
    print_line(f"day 3: broker 1 is back, {_BURNS} is rebuilt and works again")


def _open_store(servers: str, name: str) -> _Process:
    program = [sys.executable, "-m", "odradek.recipes.selfie_store", servers, name]
    # In a process group of its own, so that Ctrl-C reaches only the recipe, which ends its stores.
    return subprocess.Popen(program, process_group=0)  # noqa: S603


async def _until_members(servers: str, count: int) -> None:
    """Waits until the group is stable and has so many members. A store that burned is a member
    until its session times out."""
    async with Admin(bootstrap_servers=servers) as admin, asyncio.timeout(_DEADLINE_S):
        while True:
            group = (await admin.describe_groups([GROUP]))[GROUP]
            # There is no group before its first member joins.
            if not isinstance(group, Exception):
                has_all = len(group.members) == count
                if has_all and group.state == "Stable":
                    return
            await asyncio.sleep(0.1)


async def _post(servers: str, numbers: Iterable[int]) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        for number in numbers:
            hashtag = _HASHTAGS[number % len(_HASHTAGS)]
            selfie = {"number": number, "hashtag": hashtag}
            await producer.send(SELFIES, json.dumps(selfie).encode(), key=hashtag.encode())


def _show(warehouse: Warehouse, print_line: Callable[[str], None]) -> None:
    assert set(warehouse.of_selfie) == set(range(3 * _A_DAY)), "every selfie became merchandise"
    twice = warehouse.of_selfie.total() - len(warehouse.of_selfie)
    rows = [(name, [float(warehouse.by_store[name])]) for name in _STORES]
    print_line(Bars("Merchandise by store", rows).text(60))
    print_line(f"{3 * _A_DAY} selfies, none lost; {twice} became merchandise twice:")
    print_line(f"{_BURNS} had made it, but not committed, when it burned")


def main() -> None:
    logging.getLogger("odradek.client").setLevel(logging.ERROR)
    asyncio.run(run(print))


if __name__ == "__main__":
    main()
