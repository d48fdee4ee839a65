"""Topic keys in a file, for one machine, or for several that get the same file.

The file is JSON, written whole and synced, and only its owner may read it:

    {"version": 1, "keys": {"orders": {"1": {"created_ms": 1760000000000, "key": "<base64>"}}}}

Whoever can read this file can read the records. It belongs on another disk than the log
directories, for instance on one that is mounted at the start only, and into another backup.

A wrapped data key is the version of the topic key (4 bytes), a random nonce (12 bytes), and the
data key encrypted by AES-256-GCM, with the name of the topic key as associated data.
"""

import base64
import binascii
import json
import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from odradek.security.keys.provider import (
    DATA_KEY_BYTES,
    KeyDescription,
    KeyMissing,
    KeyProviderError,
    KeyUnavailable,
    NotUnwrapped,
)
from odradek.world import World

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_FORMAT: Final = 1
_VERSION_BYTES: Final = 4
_NONCE_BYTES: Final = 12

# Version to its fields, by the name of the key.
_Keys = dict[str, dict[str, dict[str, Any]]]


class KeyFile:
    is_local = True

    def __init__(self, path: str, world: World) -> None:
        self._path = path
        self._world = world

    def __repr__(self) -> str:
        return f"KeyFile({self._path})"

    # Wrapping

    def wrap(self, name: str, data_keys: Sequence[bytes]) -> list[bytes]:
        versions = self._versions(name)
        latest = max(map(int, versions))
        cipher = _cipher(versions[str(latest)])
        prefix, wrapped = latest.to_bytes(_VERSION_BYTES, "big"), []
        for data_key in data_keys:
            nonce = self._world.randomness.bytes(_NONCE_BYTES)
            wrapped.append(prefix + nonce + cipher.encrypt(nonce, data_key, name.encode()))
        return wrapped

    def unwrap(self, name: str, wrapped: Sequence[bytes]) -> list[bytes]:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra

        versions, data_keys = self._versions(name), []
        for blob in wrapped:
            version = str(self.version_of(blob))
            if version not in versions:
                raise KeyMissing(f"{self._path} has no version {version} of the key {name}")
            nonce = blob[_VERSION_BYTES : _VERSION_BYTES + _NONCE_BYTES]
            try:
                data_keys.append(
                    _cipher(versions[version]).decrypt(
                        nonce, blob[_VERSION_BYTES + _NONCE_BYTES :], name.encode()
                    )
                )
            except (InvalidTag, ValueError):
                raise NotUnwrapped(
                    f"version {version} of the key {name} in {self._path} did not wrap this data "
                    "key: it is damaged, or the file has another key of that name"
                ) from None
        return data_keys

    def version_of(self, wrapped: bytes) -> int:
        return int.from_bytes(wrapped[:_VERSION_BYTES], "big")

    # Administration

    def create(self, name: str) -> None:
        keys = self._read(or_new=True)
        if name in keys:
            raise KeyProviderError(
                f"{self._path} has a key {name} already; `odradek keys rotate` gives it a new "
                "version"
            )
        keys[name] = {"1": self._new_key()}
        try:
            self._world.disk.make_directories(posixpath.dirname(self._path) or ".")
        except OSError as error:
            raise KeyUnavailable(f"the key file {self._path} cannot be made: {error}") from None
        self._write(keys)

    def rotate(self, name: str) -> int:
        keys = self._read()
        if name not in keys:
            raise self._missing(name)
        version = max(map(int, keys[name])) + 1
        keys[name][str(version)] = self._new_key()
        self._write(keys)
        return version

    def destroy(self, name: str) -> None:
        keys = self._read()
        if keys.pop(name, None) is None:
            raise self._missing(name)
        self._write(keys)

    def names(self) -> list[str]:
        return sorted(self._read())

    def describe(self, name: str) -> KeyDescription:
        versions = self._versions(name)
        created = {int(number): int(key["created_ms"]) for number, key in versions.items()}
        return KeyDescription(name, dict(sorted(created.items())))

    # The file

    def _new_key(self) -> dict[str, Any]:
        key = self._world.randomness.bytes(DATA_KEY_BYTES)
        return {"created_ms": self._world.clock.now_ms(), "key": base64.b64encode(key).decode()}

    def _versions(self, name: str) -> dict[str, dict[str, Any]]:
        versions = self._read().get(name)
        if not versions:
            raise self._missing(name)
        return versions

    def _missing(self, name: str) -> KeyMissing:
        return KeyMissing(
            f"the key file {self._path} has no key {name}; `odradek keys create {name}` makes one"
        )

    def _read(self, *, or_new: bool = False) -> _Keys:
        """The file is read each time: a key that was deleted must not live on in memory, and one
        that was rotated must be seen."""
        try:
            content = self._world.disk.read(self._path)
        except FileNotFoundError:
            if or_new:
                return {}
            raise KeyUnavailable(
                f"the key file {self._path} does not exist; mount it, or make one with "
                "`odradek keys create`"
            ) from None
        except OSError as error:
            raise KeyUnavailable(f"the key file {self._path} cannot be read: {error}") from None
        try:
            found = json.loads(content)
            assert found["version"] == _FORMAT
            keys: _Keys = found["keys"]
            assert all(isinstance(versions, dict) for versions in keys.values())
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
            raise KeyUnavailable(
                f"{self._path} is not a key file of Odradek; `odradek keys create` makes one"
            ) from None
        return keys

    def _write(self, keys: _Keys) -> None:
        content = json.dumps({"version": _FORMAT, "keys": keys}, indent=1).encode() + b"\n"
        try:
            self._world.disk.replace(self._path, content)
        except OSError as error:
            raise KeyUnavailable(f"the key file {self._path} cannot be written: {error}") from None


def _cipher(version: dict[str, Any]) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra

    try:
        return AESGCM(base64.b64decode(version["key"], validate=True))
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise KeyUnavailable("a key in the key file is damaged; restore the file") from None
