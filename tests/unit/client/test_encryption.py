"""Encryption by the client: what is written is unreadable, and what is read was not changed."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from odradek.client import Consumer, Producer
from odradek.client.encryption import (
    DecryptingDeserializer,
    EncryptingSerializer,
    NotDecrypted,
    key_provider,
)
from odradek.client.serialization import SerializationContext
from odradek.config import InvalidSetting
from odradek.security.keys.provider import KeyMissing, KeyProvider, KeyProviderError
from odradek.testing import Cluster
from odradek.tools.files import read_text
from odradek.world.blocking_calls import MustBlock

CARD = {"name": "Ada", "card": {"number": "4711-0815", "year": 2031}}


@pytest.fixture
def keys(tmp_path: Path) -> KeyProvider:
    path = str(tmp_path / "keys.json")
    provider: Any = key_provider({"odradek.key.provider": "file", "odradek.key.file": path})
    provider.create("orders")
    assert "orders" in read_text(path)
    return provider  # type: ignore[no-any-return]


def context(topic: str = "payments") -> SerializationContext:
    return SerializationContext(topic, "value", [])


def written(keys: KeyProvider, value: object, fields: list[str] | None = None) -> bytes:
    serializer = EncryptingSerializer("json", key="orders", provider=keys, fields=fields)
    data = serializer.serialize(value, context())
    assert data is not None
    return data


def test_a_whole_value_comes_back_and_is_not_readable(keys: KeyProvider) -> None:
    data = written(keys, CARD)
    assert b"Ada" not in data
    assert data != written(keys, CARD)
    assert DecryptingDeserializer("json", provider=keys).deserialize(data, context()) == CARD


def test_fields_are_encrypted_and_the_rest_is_readable(keys: KeyProvider) -> None:
    fields = ["card.number", "not.there"]
    data = written(keys, CARD, fields)
    seen = json.loads(data)
    assert (seen["name"], seen["card"]["year"]) == ("Ada", 2031)
    assert "4711" not in data.decode()
    assert CARD["card"] == {"number": "4711-0815", "year": 2031}, "what was given is not changed"
    opened = DecryptingDeserializer("json", provider=keys, fields=fields)
    assert opened.deserialize(data, context()) == CARD


def test_tombstones_stay(keys: KeyProvider) -> None:
    serializer = EncryptingSerializer("json", key="orders", provider=keys)
    assert serializer.serialize(None, context()) is None
    assert DecryptingDeserializer("json", provider=keys).deserialize(None, context()) is None  # type: ignore[arg-type]


def test_every_changed_byte_is_noticed(keys: KeyProvider) -> None:
    data = written(keys, CARD)
    opened = DecryptingDeserializer("json", provider=keys)
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises((NotDecrypted, KeyProviderError, ValueError)):
            opened.deserialize(bytes(changed), context())


def test_a_value_of_another_topic_or_field_is_refused(keys: KeyProvider) -> None:
    opened = DecryptingDeserializer("json", provider=keys)
    with pytest.raises(NotDecrypted, match="another topic or field"):
        opened.deserialize(written(keys, CARD), context("refunds"))
    fields = ["name", "iban"]
    seen = json.loads(written(keys, {"name": "Ada", "iban": "DE1"}, fields))
    seen["name"], seen["iban"] = seen["iban"], seen["name"]
    opened = DecryptingDeserializer("json", provider=keys, fields=fields)
    with pytest.raises(NotDecrypted, match="another topic or field"):
        opened.deserialize(json.dumps(seen).encode(), context())


def test_plain_values_are_refused_unless_that_is_asked_for(keys: KeyProvider) -> None:
    plain = json.dumps(CARD).encode()
    with pytest.raises(NotDecrypted, match="it is not encrypted"):
        DecryptingDeserializer("json", provider=keys).deserialize(plain, context())
    with pytest.raises(NotDecrypted, match="the field name is not encrypted"):
        DecryptingDeserializer("json", provider=keys, fields=["name"]).deserialize(plain, context())
    allowed = DecryptingDeserializer("json", provider=keys, accepts_plain=True)
    assert allowed.deserialize(plain, context()) == CARD
    assert allowed.deserialize(written(keys, CARD), context()) == CARD


def test_keys_are_refused(keys: KeyProvider) -> None:
    with pytest.raises(ValueError, match="go to different partitions"):
        EncryptingSerializer("json", key="orders", provider=keys).configure({}, True)


def test_settings_that_name_no_provider_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="must be file, vault or a class"):
        key_provider({})


class Remote:
    """A provider that asks a server: it must not be called on the event loop."""

    def __init__(self, keys: KeyProvider) -> None:
        self._keys = keys
        self.calls = 0

    def wrap(self, name: str, data_keys: list[bytes]) -> list[bytes]:
        self.calls += 1
        return self._keys.wrap(name, data_keys)

    def unwrap(self, name: str, wrapped: list[bytes]) -> list[bytes]:
        self.calls += 1
        return self._keys.unwrap(name, wrapped)


def test_a_remote_provider_is_asked_in_a_thread_and_once(keys: KeyProvider) -> None:
    remote: Any = Remote(keys)
    on_loop = EncryptingSerializer("json", key="orders", provider=remote).without_blocking()
    with pytest.raises(MustBlock) as waiting:
        on_loop.serialize(CARD, context())
    waiting.value.call()
    data = [on_loop.serialize(CARD, context()) for _ in range(100)]
    assert remote.calls == 1
    reading = DecryptingDeserializer("json", provider=remote).without_blocking()
    with pytest.raises(MustBlock) as waiting:
        reading.deserialize(data[0] or b"", context())
    waiting.value.call()
    assert all(reading.deserialize(each or b"", context()) == CARD for each in data)
    assert remote.calls == 2


def test_a_key_that_is_missing_is_said_after_the_blocking_call(keys: KeyProvider) -> None:
    remote: Any = Remote(keys)
    on_loop = EncryptingSerializer("json", key="other", provider=remote).without_blocking()
    with pytest.raises(MustBlock) as waiting:
        on_loop.serialize(CARD, context())
    waiting.value.call()
    with pytest.raises(KeyMissing, match="has no key other"):
        on_loop.serialize(CARD, context())


async def test_a_broker_does_not_see_the_value(keys: KeyProvider) -> None:
    remote: Any = Remote(keys)
    with Cluster() as cluster:
        serializer = EncryptingSerializer("json", key="orders", provider=remote)
        async with Producer(
            bootstrap_servers=cluster.bootstrap, value_serializer=serializer
        ) as producer:
            await producer.send("payments", CARD, key=b"ada")
        for deserializer, expected in (
            (DecryptingDeserializer("json", provider=remote), CARD),
            (None, None),
        ):
            async with Consumer(
                bootstrap_servers=cluster.bootstrap,
                auto_offset_reset="earliest",
                value_deserializer=deserializer,
            ) as consumer:
                consumer.assign([("payments", 0)])
                record = await anext(aiter(consumer))
                if expected is not None:
                    assert record.value == expected
                else:
                    assert b"4711" not in record.value
                    assert base64.b64encode(b"4711") not in record.value
