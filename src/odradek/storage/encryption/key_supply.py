"""Gets data keys from the key provider, before they are needed.

- When the broker starts: the keys of all encrypted files, in one call for each topic key. The
  partitions for which that fails stay *locked*: their logs are not loaded.
- For each topic key in use: one data key for the next segment. When it was taken, another one.
- Every `odradek.key.refresh.ms`: a new data key, which a new version of the topic key has wrapped
  if it was rotated. If the topic key was deleted, the log says so; open partitions are served until
  the broker stops, because a wrong key file for a moment must not take them away.

No request waits for a call of the provider.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from odradek.security.keys.provider import (
    DATA_KEY_BYTES,
    KeyProvider,
    KeyProviderError,
)
from odradek.storage.encryption.data_keys import DataKey, DataKeys
from odradek.storage.encryption.layout import Slot
from odradek.world import World

logger = logging.getLogger("odradek.storage")

_UNWRAPPED_AT_ONCE: Final = 500
_FIRST_RETRY_S: Final = 1.0
_MAX_RETRY_S: Final = 10.0


class KeySupply:
    def __init__(
        self, provider: KeyProvider, keys: DataKeys, world: World, *, refresh_ms: int
    ) -> None:
        self.keys = keys
        self.provider = provider
        self._world = world
        self._refresh_s = refresh_ms / 1000
        # Why a topic key cannot be had, by its name. It is tried again.
        self.problems: dict[str, str] = {}
        # Topic keys that are asked for soon, because a data key was taken, or never was at hand.
        self._wanted: dict[str, None] = {}
        self._is_wanted = asyncio.Event()
        self._retry_s = _FIRST_RETRY_S
        # Yields how the files of locked partitions are encrypted.
        self.locked_files: Callable[[], Iterable[Slot]] = tuple
        # Called when keys that could not be had were asked for again.
        self.on_retry: Callable[[], None] = _nothing
        keys.on_taken = self.want

    def want(self, name: str) -> None:
        """Asks for a data key of this topic key, soon."""
        self._wanted[name] = None
        self._is_wanted.set()

    # At the start, and for locked partitions

    async def unwrap(self, slots: Iterable[Slot]) -> None:
        """Unwraps the keys of files; `problems` says which topic keys failed."""
        missing: dict[str, dict[bytes, None]] = {}
        for slot in slots:
            if not self.keys.knows(slot):
                missing.setdefault(slot.key_name, {})[slot.wrapped] = None
        for name, blobs in missing.items():
            wrapped = list(blobs)
            try:
                for start in range(0, len(wrapped), _UNWRAPPED_AT_ONCE):
                    part = wrapped[start : start + _UNWRAPPED_AT_ONCE]
                    found = await self._call(partial(self.provider.unwrap, name, part))
                    for blob, data_key in zip(part, found, strict=True):
                        self.keys.add(DataKey(name, blob, data_key))
                self._found(name)
            except KeyProviderError as error:
                self._failed(name, error)

    async def fetch(self, names: Iterable[str]) -> None:
        """Gets a data key for each topic key of which none is ready."""
        for name in sorted(set(names)):
            if not self.keys.ready_count(name):
                await self._fetch(name)

    # While the broker runs

    async def run(self) -> None:
        """Keeps a data key ready for each topic key in use, until it is cancelled."""
        while True:
            is_refresh = False
            try:
                async with asyncio.timeout(self._retry_s if self.problems else self._refresh_s):
                    await self._is_wanted.wait()
            except TimeoutError:
                is_refresh = True
            self._is_wanted.clear()
            wanted, self._wanted = list(self._wanted), {}
            if is_refresh:
                had_problems = bool(self.problems)
                for name in sorted(self.keys.names | self.problems.keys()):
                    await self._fetch(name, replaces=True)
                if had_problems:
                    await self.unwrap(self.locked_files())
                    self.on_retry()
                self._retry_s = min(2 * self._retry_s, _MAX_RETRY_S)
            else:
                await self.fetch(name for name in wanted if name not in self.problems)

    async def _fetch(self, name: str, *, replaces: bool = False) -> None:
        try:
            data_key = await self._world.workers.run_blocking(partial(self._new_key, name))
        except KeyProviderError as error:
            self._failed(name, error)
        else:
            self.keys.add_ready([data_key], replaces=replaces)
            self._found(name)

    def fetch_at_once(self, name: str) -> None:
        """For a partition that is new here. Only a provider on this machine is asked; from another
        one the key comes soon."""
        if not getattr(self.provider, "is_local", False):
            self.want(name)
            return
        try:
            self.keys.add_ready([self._new_key(name)])
        except KeyProviderError as error:
            self._failed(name, error)
        else:
            self._found(name)

    def _new_key(self, name: str) -> DataKey:
        data_key = self._world.randomness.bytes(DATA_KEY_BYTES)
        return DataKey(name, self.provider.wrap(name, [data_key])[0], data_key)

    async def _call(self, call: Callable[[], list[bytes]]) -> list[bytes]:
        return await self._world.workers.run_blocking(call)

    def _found(self, name: str) -> None:
        if self.problems.pop(name, None) is not None:
            self._retry_s = _FIRST_RETRY_S
            logger.warning("the key %s can be had again", name)

    def _failed(self, name: str, error: KeyProviderError) -> None:
        if self.problems.get(name) != str(error):
            logger.error("the key %s cannot be had: %s", name, error)
        self.problems[name] = str(error)


def _nothing() -> None:
    """Nobody waits for keys."""
