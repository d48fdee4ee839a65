"""The interface of a key provider. Odradek has two (`key_file`, `vault`); a class of yours is a
third one: `odradek.key.provider=package.module:Class`.

A provider keeps *topic keys* by name. Each has one or more versions: the newest one wraps, all of
them unwrap. The methods are called in worker threads, one call at a time for each provider, and may
wait for a network; they should give up after a few seconds.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

DATA_KEY_BYTES: Final = 32
# A segment has room for a wrapped key of this size.
MAX_WRAPPED_BYTES: Final = 1024


class KeyProviderError(Exception):
    """The base of the errors below. The text is for the operator: one line, with what to do."""


class KeyUnavailable(KeyProviderError):
    """The provider cannot be asked now: it is down, sealed, or refuses the log-in. A later call may
    succeed."""


class KeyMissing(KeyProviderError):
    """The provider has no key of this name, or not the version that wrapped a data key: it was
    deleted, or never created."""


class NotUnwrapped(KeyProviderError):
    """A wrapped key was damaged, or was not wrapped by this key."""


class KeyDescription(NamedTuple):
    name: str
    # Each version, and when it was created (milliseconds since 1970; 0 if it is not known).
    versions: Mapping[int, int]

    @property
    def latest(self) -> int:
        return max(self.versions, default=0)


class KeyProvider(Protocol):
    """What a key provider does. Every method may raise `KeyUnavailable` or `KeyMissing`.

    A class that is named in a setting is made with one argument: a mapping with all settings of the
    broker or client as text. If it has an attribute `is_local` that is true, it never waits, and is
    also called on the event loop.
    """

    def wrap(self, name: str, data_keys: Sequence[bytes]) -> list[bytes]:
        """Wraps data keys with the newest version of a topic key."""
        ...

    def unwrap(self, name: str, wrapped: Sequence[bytes]) -> list[bytes]:
        """Returns the data keys, in the same order; raises `NotUnwrapped` too."""
        ...


class KeyAdministration(KeyProvider, Protocol):
    """What `odradek keys` needs of a provider besides."""

    def create(self, name: str) -> None:
        """Creates a key; raises `KeyProviderError` if there is one of that name."""
        ...

    def rotate(self, name: str) -> int:
        """Adds a version, which wraps from now on, and returns its number."""
        ...

    def destroy(self, name: str) -> None:
        """Deletes all versions of a key, for good."""
        ...

    def names(self) -> list[str]: ...

    def describe(self, name: str) -> KeyDescription: ...

    def version_of(self, wrapped: bytes) -> int:
        """The version of the topic key that wrapped a data key; 0 if that cannot be told."""
        ...
