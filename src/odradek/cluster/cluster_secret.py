"""A secret that all brokers of a cluster share, and that clients do not know.

It makes the salts of SCRAM users that do not exist: if each broker had a secret of its own, two
brokers would answer with two salts for the same name, and a user who exists gets one. It protects
no password.
"""

from typing import Final

from odradek.metadata import MetadataCache
from odradek.metadata.compare_and_set import change_node
from odradek.world.randomness import Randomness

PATH: Final = "/odradek/scram_salt_secret"
_PARENTS: Final = ("/odradek",)
_BYTES: Final = 32


class ClusterSecret:
    def __init__(self, cache: MetadataCache, randomness: Randomness) -> None:
        self._cache = cache
        self._randomness = randomness
        self._known: bytes | None = None

    async def get(self) -> bytes:
        """Returns the secret, which the first broker that needs it writes to the store. Raises
        `MetadataError`."""
        if self._known is None:
            self._known = await change_node(self._cache, PATH, self._first, parents=_PARENTS)
        assert self._known
        return self._known

    def _first(self, value: bytes | None) -> bytes:
        return value or self._randomness.bytes(_BYTES).hex().encode()
