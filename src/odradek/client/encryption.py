"""Encryption by the client: brokers store, replicate and serve records that they cannot read.

    keys = key_provider({"odradek.key.provider": "file", "odradek.key.file": "topic-keys.json"})
    Producer(value_serializer=EncryptingSerializer("json", key="orders", provider=keys))
    Consumer(value_deserializer=DecryptingDeserializer("json", provider=keys))

With `fields`, only these fields of a JSON-like dict are encrypted, and the rest stays readable for
everybody: `fields=["card", "address.street"]`.

A serializer has a data key of its own, which the topic key wraps, and takes another one after
`RECORDS_PER_DATA_KEY` values. Each value is encrypted by AES-256-GCM with a random nonce. The topic
and the field are associated data: a value that was moved to another topic or field is refused.
Wrapped data keys travel with the values, so a consumer needs the key provider and nothing else.

What is encrypted differs each time, so an encrypted key would spread the records of one key over
all partitions, and compaction would keep them all. Therefore keys are refused.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from odradek.client.serialization import (
    Deserializer,
    Field,
    SerializationContext,
    Serializer,
    bind_deserializer,
    bind_serializer,
    deserializer_named,
    serializer_named,
)
from odradek.config import BrokerSettings
from odradek.config.setting import InvalidSetting
from odradek.security.keys.opening import open_provider
from odradek.security.keys.provider import DATA_KEY_BYTES, KeyProvider, KeyProviderError
from odradek.world import World
from odradek.world.blocking_calls import MustBlock

# NIST allows 2^32 random nonces for one key; this is far below.
RECORDS_PER_DATA_KEY: Final = 1 << 20

_MAGIC: Final = b"\xf0ODRK1"
_TEXT_MAGIC: Final = "odradek-encrypted:"
_NONCE_BYTES: Final = 12
# Of a consumer: so many wrapped data keys are remembered.
_MAX_KNOWN_KEYS: Final = 1000


class NotDecrypted(ValueError):
    """A value is not encrypted, or was changed; the message says which. If its key cannot be had,
    `KeyProviderError` is raised instead."""


def key_provider(properties: Mapping[str, str]) -> KeyProvider:
    """The key provider that these settings name, as those of a broker do: `odradek.key.provider`
    and what belongs to it. Raises `InvalidSetting`."""
    settings = BrokerSettings.from_properties(dict(properties))
    if settings.odradek_key_provider == "none":
        raise InvalidSetting("odradek.key.provider", "none", "must be file, vault or a class")
    return open_provider(settings, World())


class _DataKey(NamedTuple):
    name: str
    wrapped: bytes
    cipher: Any  # AESGCM


class _Ciphers:
    """The data keys of one serializer or deserializer."""

    def __init__(self, provider: KeyProvider) -> None:
        self._provider = provider
        self._world = World()
        self._own: _DataKey | None = None
        self._left = 0
        self._known: dict[tuple[str, bytes], Any] = {}
        self._error: Exception | None = None

    def encrypt(self, name: str, data: bytes, associated: bytes, *, may_block: bool) -> bytes:
        if not self._left:
            self._get(lambda: self._renew(name), may_block=may_block)
        own = self._own
        assert own is not None
        self._left -= 1
        nonce = self._world.randomness.bytes(_NONCE_BYTES)
        header = (
            _MAGIC
            + len(own.name).to_bytes(1, "big")
            + own.name.encode()
            + len(own.wrapped).to_bytes(2, "big")
            + own.wrapped
            + nonce
        )
        sealed: bytes = own.cipher.encrypt(nonce, data, associated)
        return header + sealed

    def _renew(self, name: str) -> None:
        data_key = self._world.randomness.bytes(DATA_KEY_BYTES)
        (wrapped,) = self._provider.wrap(name, [data_key])
        self._own, self._left = _DataKey(name, wrapped, _cipher(data_key)), RECORDS_PER_DATA_KEY

    def decrypt(self, data: bytes, associated: bytes, *, may_block: bool) -> bytes:
        """Raises `NotDecrypted`."""
        name, wrapped, nonce, sealed = _parsed(data)
        cipher = self._known.get((name, wrapped))
        if cipher is None:
            self._get(lambda: self._learn(name, wrapped), may_block=may_block)
            cipher = self._known[name, wrapped]
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra

        try:
            plain: bytes = cipher.decrypt(nonce, sealed, associated)
        except (InvalidTag, ValueError):
            raise NotDecrypted(
                "it was changed, or was encrypted for another topic or field"
            ) from None
        return plain

    def _learn(self, name: str, wrapped: bytes) -> None:
        (data_key,) = self._provider.unwrap(name, [wrapped])
        while len(self._known) >= _MAX_KNOWN_KEYS:
            del self._known[next(iter(self._known))]
        self._known[name, wrapped] = _cipher(data_key)

    def _get(self, ask: Callable[[], None], *, may_block: bool) -> None:
        """Asks the key provider: at once in a thread, else by `MustBlock`."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        if not may_block and not getattr(self._provider, "is_local", False):
            raise MustBlock(lambda: self._keep_error(ask))
        ask()

    def _keep_error(self, ask: Callable[[], None]) -> None:
        try:
            ask()
        except KeyProviderError as failed:
            self._error = failed


class _Wrapper:
    """What both classes share: the wrapped serializer, and the fields."""

    def __init__(self, provider: KeyProvider, fields: Sequence[str] | None) -> None:
        if isinstance(fields, str) or (fields is not None and not fields):
            raise ValueError('fields is a list of names, as in fields=["card", "address.street"]')
        self._ciphers = _Ciphers(provider)
        self._fields = None if fields is None else [tuple(path.split(".")) for path in fields]
        self._field: Field = "value"
        self._owner: Any = None

    def configure(self, _settings: Mapping[str, Any], is_key: bool) -> None:
        if is_key:
            raise ValueError(
                "keys cannot be encrypted: equal keys would differ, and go to different partitions"
            )

    def close(self) -> None:
        close = getattr(self._owner, "close", None)
        if callable(close):
            close()


class EncryptingSerializer(_Wrapper):
    """Encrypts what another serializer writes, or fields of the dict that it is given."""

    def __init__(
        self,
        inner: Serializer | str,
        *,
        key: str,
        provider: KeyProvider,
        fields: Sequence[str] | None = None,
    ) -> None:
        """`key` is the name of the topic key."""
        super().__init__(provider, fields)
        self._key = key
        self._inner = serializer_named(inner) if isinstance(inner, str) else inner
        self._bound = bind_serializer(self._inner, {}, "value")

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        super().configure(settings, is_key)
        self._bound = bind_serializer(self._inner, settings, "value")
        self._owner = None if self._bound is None else self._bound.owner

    def serialize(self, value: Any, context: SerializationContext) -> bytes | None:
        return self._serialize(value, context, may_block=True)

    def without_blocking(self) -> "_OnEventLoop":
        return _OnEventLoop(serialize=self._serialize)

    def _serialize(
        self, value: Any, context: SerializationContext, *, may_block: bool
    ) -> bytes | None:
        if value is None:
            return None
        associated = _associated(context)
        if self._fields is not None:
            for path in self._fields:
                where = associated + ".".join(path).encode()
                value = _changed(value, path, partial(self._sealed, where, may_block))
        written = value
        if self._bound is not None:
            function = self._bound.function
            written = function(value, context) if self._bound.takes_context else function(value)
        if self._fields is not None or written is None:
            return written  # type: ignore[no-any-return]  # of the wrapped serializer
        return self._ciphers.encrypt(self._key, written, associated, may_block=may_block)

    def _sealed(self, associated: bytes, may_block: bool, value: Any) -> str:
        data = json.dumps(value, separators=(",", ":")).encode()
        sealed = self._ciphers.encrypt(self._key, data, associated, may_block=may_block)
        return _TEXT_MAGIC + base64.b64encode(sealed).decode()


class DecryptingDeserializer(_Wrapper):
    """Decrypts what `EncryptingSerializer` has written; `fields` must be the same.

    A value or field that is not encrypted is refused: somebody who may write to the topic, but has
    no key, could write it. `accepts_plain` allows it, for a topic that was not encrypted before.
    """

    def __init__(
        self,
        inner: Deserializer | str,
        *,
        provider: KeyProvider,
        fields: Sequence[str] | None = None,
        accepts_plain: bool = False,
    ) -> None:
        super().__init__(provider, fields)
        self._accepts_plain = accepts_plain
        self._inner = deserializer_named(inner) if isinstance(inner, str) else inner
        self._bound = bind_deserializer(self._inner, {}, "value")

    def configure(self, settings: Mapping[str, Any], is_key: bool) -> None:
        super().configure(settings, is_key)
        self._bound = bind_deserializer(self._inner, settings, "value")
        self._owner = None if self._bound is None else self._bound.owner

    def deserialize(self, data: bytes, context: SerializationContext) -> Any:
        return self._deserialize(data, context, may_block=True)

    def without_blocking(self) -> "_OnEventLoop":
        return _OnEventLoop(deserialize=self._deserialize)

    def _deserialize(self, data: Any, context: SerializationContext, *, may_block: bool) -> Any:
        if data is None:
            return None
        associated = _associated(context)
        data = bytes(data)
        if self._fields is None and not (self._accepts_plain and not data.startswith(_MAGIC)):
            data = self._ciphers.decrypt(data, associated, may_block=may_block)
        value: Any = data
        if self._bound is not None:
            function = self._bound.function
            value = function(data, context) if self._bound.takes_context else function(data)
        for path in self._fields or ():
            value = _changed(value, path, partial(self._opened, path, associated, may_block))
        return value

    def _opened(self, path: tuple[str, ...], associated: bytes, may_block: bool, found: Any) -> Any:
        name = ".".join(path)
        if not isinstance(found, str) or not found.startswith(_TEXT_MAGIC):
            if self._accepts_plain:
                return found
            raise NotDecrypted(f"the field {name} is not encrypted")
        try:
            sealed = base64.b64decode(found[len(_TEXT_MAGIC) :], validate=True)
        except (ValueError, binascii.Error):
            raise NotDecrypted(f"the field {name} is damaged") from None
        return json.loads(
            self._ciphers.decrypt(sealed, associated + name.encode(), may_block=may_block)
        )


class _OnEventLoop:
    """A serializer or deserializer as our clients call it: it raises `MustBlock`."""

    def __init__(
        self,
        serialize: Callable[..., bytes | None] | None = None,
        deserialize: Callable[..., Any] | None = None,
    ) -> None:
        self._serialize = serialize
        self._deserialize = deserialize

    def serialize(self, value: Any, context: SerializationContext) -> bytes | None:
        assert self._serialize is not None
        return self._serialize(value, context, may_block=False)

    def deserialize(self, data: bytes, context: SerializationContext) -> Any:
        assert self._deserialize is not None
        return self._deserialize(data, context, may_block=False)


def _associated(context: SerializationContext) -> bytes:
    return f"{context.topic}\0{context.field}\0".encode()


def _parsed(data: bytes) -> tuple[str, bytes, bytes, bytes]:
    """Name of the topic key, wrapped data key, nonce, ciphertext with tag."""
    if not data.startswith(_MAGIC):
        raise NotDecrypted("it is not encrypted")
    at = len(_MAGIC)
    name = data[at + 1 : at + 1 + data[at]] if len(data) > at else b""
    at += 1 + len(name)
    length = int.from_bytes(data[at : at + 2], "big")
    wrapped = data[at + 2 : at + 2 + length]
    at += 2 + length
    nonce = data[at : at + _NONCE_BYTES]
    if len(nonce) < _NONCE_BYTES or not wrapped:
        raise NotDecrypted("it is cut short")
    return name.decode("utf-8", "replace"), wrapped, nonce, data[at + _NONCE_BYTES :]


def _changed(value: Any, path: tuple[str, ...], change: Callable[[Any], Any]) -> Any:
    """A copy of a dict with one field changed; the dict itself if it has no such field."""
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    found = value[path[0]]
    if len(path) > 1:
        return {**value, path[0]: _changed(found, path[1:], change)}
    return {**value, path[0]: change(found)}


def _cipher(data_key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra

    return AESGCM(data_key)
