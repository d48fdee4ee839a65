"""The clusters of one console, each with its clients, its registry and its watchers."""

import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from odradek.console.openid.provider import Provider
from odradek.console.prometheus import Prometheus
from odradek.console.records.masks import Mask, Masks
from odradek.console.records.registry_formats import ASKED, PageFormats
from odradek.console.settings import ConsoleSettings
from odradek.console.watching import Watchers
from odradek.security.tls.contexts import client_context
from odradek.security.tls.settings import TlsSettings
from odradek.services.client_pool import ClientPool
from odradek.services.identity import Caller
from odradek.world.disk import OsDisk

if TYPE_CHECKING:
    from odradek.console.pages.tailing import Tail

# Nobody waits for long before a page, and a console must stay small in memory. A page reads what is
# there: a fetch that waits at the end of a log would hold up the next one.
READERS: Final = {
    "default.api.timeout.ms": 8000,
    "fetch.max.bytes": 8_000_000,
    "max.partition.fetch.bytes": 1_000_000,
    # Three kilobytes can become this much, and a poll may open a batch for each of its records.
    "odradek.max.batch.bytes": 16_000_000,
    "fetch.max.wait.ms": 10,
}
_KINDS: Final[dict[str, dict[str, object]]] = {
    "admin": {"default.api.timeout.ms": 6000, "request.timeout.ms": 5000},
    "consumer": {**READERS},
}


def client_kinds(settings: ConsoleSettings) -> dict[str, dict[str, object]]:
    """Returns the properties of each kind of client: ours, and over them those of the file."""
    return {
        kind: {**_KINDS.get(kind, {}), **settings.client_kinds.get(kind, {})}
        for kind in {*_KINDS, *settings.client_kinds}
    }


class Cluster:
    """One cluster as the console knows it."""

    def __init__(self, settings: ConsoleSettings, pool: ClientPool, masks: Iterable[Mask]) -> None:
        self.name = settings.odradek_cluster_name
        self.settings = settings
        self.pool = pool
        self.formats = PageFormats({**ASKED, **settings.registry_properties()})
        self.watchers = Watchers(pool, settings.odradek_refresh_ms / 1000)
        self.prometheus: Prometheus | None = None
        if settings.prometheus_url:
            self.prometheus = Prometheus(settings.prometheus_url, settings.prometheus_labels)
        openid = settings.openid()
        self.provider = None if openid is None else Provider(openid)
        self.tails: WeakKeyDictionary[Tail, Caller] = WeakKeyDictionary()
        """The live tails, by whom they were opened."""
        self._masks = tuple(masks)

    @property
    def needs_log_in(self) -> bool:
        return self.settings.uses_sasl

    @property
    def is_read_only(self) -> bool:
        return self.settings.odradek_read_only

    @property
    def servers(self) -> str:
        return str(self.settings.client_properties()["bootstrap.servers"])

    @property
    def has_registry(self) -> bool:
        return bool(self.settings.schema_registry_url)

    @property
    def has_connect(self) -> bool:
        return bool(self.settings.connect_url)

    @property
    def sql_url(self) -> str:
        return (self.settings.sql_url or self.settings.ksql_url).rstrip("/")

    def tls(self) -> ssl.SSLContext:
        """Returns how services beside the brokers are trusted: by the truststore of the brokers,
        or else by that of the operating system. It reads files."""
        given = self.settings.client_properties()
        trusted = {
            name: str(text) for name, text in given.items() if name.startswith("ssl.truststore.")
        }
        return client_context(TlsSettings.from_properties(trusted), OsDisk().read)

    @property
    def has_masks(self) -> bool:
        return bool(self._masks)

    def masks(self, topic: str) -> Masks:
        return Masks(self._masks, topic)
