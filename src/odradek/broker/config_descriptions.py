"""Descriptions of settings that responses share: topics with the same overrides have the same ones.

DescribeConfigs of 2,000 topics with synonyms made 200,000 objects, and CreateTopics of as many
topics 60,000. Making them, collecting garbage among them and freeing them stalled other requests.
Most topics have no overrides, or the same as other topics, so their descriptions are made once.
Handlers put them into their responses and do not change them.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, TypeVar

from odradek.config import BrokerSettings

T = TypeVar("T")

# How many combinations of overrides and request options are kept.
_MAX_KEPT: Final = 16


class ConfigDescriptionCache:
    """One for each broker. Invariant: the descriptions that are kept were made with `_settings`."""

    def __init__(self) -> None:
        self._settings: BrokerSettings | None = None
        self._kept: dict[Hashable, object] = {}

    def described(
        self,
        settings: BrokerSettings,
        overrides: Mapping[str, str],
        options: Hashable,
        describe: Callable[[], T],
    ) -> T:
        """Returns what `describe` returns for a topic with these overrides, or what it returned
        for another topic. `options` is everything else that the description depends on."""
        if settings is not self._settings:
            self._settings = settings
            self._kept.clear()
        key = (frozenset(overrides.items()), options)
        found = self._kept.pop(key, None)
        if found is None:
            found = describe()
            if len(self._kept) >= _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = found  # The combination that was used last is removed last.
        return found  # type: ignore[return-value]
