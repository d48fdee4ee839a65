"""Ids for brokers whose settings name none."""

import asyncio

from odradek.cluster.broker_ids import BROKER_SEQUENCE_PATH, id_of_directories, next_broker_id
from odradek.metadata import MetadataCache
from odradek.metadata.memory import MemoryMetadata
from odradek.metadata.store_setup import prepare_store
from odradek.world import MemoryDisk


def test_ids_begin_above_the_reserved_ones_and_no_two_brokers_get_the_same() -> None:
    async def test() -> None:
        metadata = MemoryMetadata()
        stores = [metadata.connect() for _ in range(5)]
        await prepare_store(stores[0], "cluster")
        brokers = [MetadataCache(store) for store in stores]
        for images in brokers:
            await images.load()
        first = await next_broker_id(brokers[0], 1000)
        others = await asyncio.gather(*(next_broker_id(images, 1000) for images in brokers))
        assert first == 1001
        assert sorted(others) == [1002, 1003, 1004, 1005, 1006]
        node = await stores[0].read(BROKER_SEQUENCE_PATH)
        assert node is not None
        assert node.version == 6

    asyncio.run(test())


def test_a_directory_that_belongs_to_a_broker_names_it() -> None:
    disk = MemoryDisk()
    for directory, text in (
        ("/empty", None),
        ("/new", "version=1\nnode.id=1004\n"),
        ("/old", "version=0\nbroker.id=7\n"),
    ):
        disk.make_directories(directory)
        if text is not None:
            disk.replace(f"{directory}/meta.properties", text.encode())
    assert id_of_directories(disk, ["/missing", "/empty"]) is None
    assert id_of_directories(disk, ["/empty", "/new"]) == 1004
    assert id_of_directories(disk, ["/old"]) == 7
