"""Says at once that a broker cannot be reached, while the client goes on trying.

Producers and consumers try again for as long as it takes, as Kafka's do, so an error may come a
minute later or never. Therefore the first failed connection to an address is logged as a warning
that says what to check, and again every minute until a connection is made. A client that gives up
after a few retries (an `Admin` of a tool) raises the error instead, and nothing is logged.
"""

import logging
from typing import Final

from odradek.client.cluster_view import ClusterView
from odradek.client.settings.shared import ClientSettings

_log = logging.getLogger("odradek.client")

_AGAIN_AFTER_S: Final = 60.0
_MIN_RETRIES: Final = 5


class UnreachableBrokers:
    """The addresses that cannot be reached now, and when each was reported."""

    def __init__(self, settings: ClientSettings, view: ClusterView) -> None:
        self._settings = settings
        self._view = view
        self._goes_on = getattr(settings, "retries", _MIN_RETRIES) >= _MIN_RETRIES
        self._reported_s: dict[tuple[str, int], float] = {}

    def note_failure(self, host: str, port: int, error: BaseException, now_s: float) -> None:
        """Logs a failed connection, unless the address was reported within the last minute."""
        reported_s = self._reported_s.get((host, port))
        if not self._goes_on or (reported_s is not None and now_s < reported_s + _AGAIN_AFTER_S):
            return
        still = "" if reported_s is None else "still "
        self._reported_s[host, port] = now_s
        _log.warning("%s%s; trying again. %s", still, error, self._advice(host, port))

    def note_success(self, host: str, port: int) -> None:
        """Logs that a broker answers again, if it was reported."""
        if self._reported_s.pop((host, port), None) is not None:
            _log.warning("connected to %s:%d again", host, port)

    def _advice(self, host: str, port: int) -> str:
        for broker in self._view.brokers.values():
            if (broker.host, broker.port) == (host, port):
                return (
                    f"Is broker {broker.id} running? The address is what its advertised.listeners"
                    " says, and must be reachable from here"
                )
        servers = ",".join(self._settings.bootstrap_servers)
        return f"Is the broker running, and is bootstrap_servers={servers!r} its address?"
