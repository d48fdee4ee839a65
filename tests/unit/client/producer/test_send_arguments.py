"""Arguments that `send` cannot take are answered with the line to write."""

from typing import Any

import pytest

from odradek.client import sync
from odradek.client.producer.producer import Producer


async def test_a_partition_needs_its_name() -> None:
    producer: Any = Producer(bootstrap_servers="127.0.0.1:1")
    for send in (producer.send, producer.send_and_wait):
        with pytest.raises(TypeError, match=r"1 too many arguments: write send.*, partition=0\)"):
            await send("t", b"v", b"k", 0)


def test_the_same_without_an_event_loop() -> None:
    producer: Any = sync.Producer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(TypeError, match=r"write send\(\.\.\., partition=0\) if that is meant"):
        producer.send("t", b"v", b"k", 0)
