"""Topics with the same overrides have the same settings: described once, and shared by answers.

DescribeConfigs of 2,000 topics with synonyms made 200,000 objects, and CreateTopics of as many
60,000: to make them, to look at them in the collector and to free them at the end held others up.
Most topics have no settings of their own, or the same as others, and then their answers refer to
the same objects. Nobody changes them: a handler puts the list into its answer as it is.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, TypeVar

from odradek.config import BrokerSettings

T = TypeVar("T")

# How many combinations of overrides and wishes are kept.
_MAX_KEPT: Final = 16


class ConfigDescriptionCache:
    """One for each broker. Invariant: what is kept was described under `_settings`."""

    def __init__(self) -> None:
        self._settings: BrokerSettings | None = None
        self._kept: dict[Hashable, object] = {}

    def described(
        self,
        settings: BrokerSettings,
        overrides: Mapping[str, str],
        wish: Hashable,
        describe: Callable[[], T],
    ) -> T:
        """Returns what `describe` returns for a topic with these overrides, or what it returned
        for another one. `wish` says what else the answer depends on, its kind included."""
        if settings is not self._settings:
            self._settings = settings
            self._kept.clear()
        key = (frozenset(overrides.items()), wish)
        found = self._kept.pop(key, None)
        if found is None:
            found = describe()
            if len(self._kept) >= _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = found  # The one that was asked for last is the last to go.
        return found  # type: ignore[return-value]
