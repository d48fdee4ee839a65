"""The clients without asyncio have every method of the asyncio clients, written out."""

import inspect
from typing import Any

import pytest

from odradek.client import sync
from odradek.client.admin.admin import Admin
from odradek.client.consumer.consumer import Consumer
from odradek.client.producer.producer import Producer

PAIRS: list[tuple[type, type]] = [
    (Producer, sync.Producer),
    (Consumer, sync.Consumer),
    (Admin, sync.Admin),
]
# What is about the asyncio client's own connections and its iterator.
LEFT_OUT = {
    "ask_broker",
    "ask_coordinators",
    "cluster",
    "connection",
    "coordinator",
    "known_coordinator",
    "return_unseen",
}
CHANGED = {
    "close",
    "describe_topic_partitions",
    "send",
    "start",
    "stop",
    "transaction",
    "unsubscribe",
}


def public(client: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in inspect.getmembers(client)
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
    }


@pytest.mark.parametrize(("asynchronous", "waiting"), PAIRS)
def test_each_method_is_there_with_the_same_signature_and_a_docstring(
    asynchronous: type, waiting: type
) -> None:
    expected = {name for name in public(asynchronous) if name not in LEFT_OUT}
    written = public(waiting)
    assert expected - written.keys() == set()
    for name in sorted(expected):
        member = written[name]
        assert member.__doc__, name
        if callable(member) and name not in CHANGED:
            assert inspect.signature(member) == inspect.signature(public(asynchronous)[name]), name


@pytest.mark.parametrize(("asynchronous", "waiting"), PAIRS)
def test_constructors_are_the_same(asynchronous: type, waiting: type) -> None:
    assert inspect.signature(waiting) == inspect.signature(asynchronous)


@pytest.mark.parametrize("client", [kind for pair in PAIRS for kind in pair])
def test_every_method_has_a_docstring(client: type) -> None:
    assert [name for name, member in public(client).items() if not member.__doc__] == []
