"""A cache of config descriptions. Topics with the same overrides share one list of descriptions in
the responses to DescribeConfigs and CreateTopics.

DescribeConfigs of 2,000 topics with synonyms made 200,000 objects, and CreateTopics of as many
topics 60,000. Making them, collecting garbage among them and freeing them stalled other requests.
Most topics have no overrides, or the same as other topics, so their descriptions are made once.
Handlers put these lists into their responses and do not change them.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, TypeVar

from odradek.config import BrokerSettings

T = TypeVar("T")

# The number of combinations of overrides and request options whose descriptions are cached.
_MAX_CACHED: Final = 16


class ConfigDescriptionCache:
    """Each broker has one cache. Invariant: all cached descriptions were made with `_settings`."""

    def __init__(self) -> None:
        self._settings: BrokerSettings | None = None
        self._cached: dict[Hashable, object] = {}

    def get_or_describe(
        self,
        settings: BrokerSettings,
        overrides: Mapping[str, str],
        options: Hashable,
        describe: Callable[[], T],
    ) -> T:
        """Returns the cached description for these settings, overrides and options. Calls
        `describe` if there is none. `options` is everything else that the description depends
        on, for example whether the request asks for synonyms."""
        if settings is not self._settings:
            self._settings = settings
            self._cached.clear()
        key = (frozenset(overrides.items()), options)
        description = self._cached.pop(key, None)
        if description is None:
            description = describe()
            if len(self._cached) >= _MAX_CACHED:
                del self._cached[next(iter(self._cached))]
        # The key moves to the end, so the least recently used key is removed first.
        self._cached[key] = description
        return description  # type: ignore[return-value]
