"""Says at once that a broker cannot be reached, while the client goes on trying.

Producers and consumers try again for as long as it takes, as Kafka's do, so an error may come a
minute later or never. Therefore the first failed connection to a broker is logged as a warning that
says what to check, and again every minute until a connection is made. An address of
`bootstrap.servers` is reported only if none of them can be reached: one that answers is enough. A
client that gives up after a few retries (an `Admin` of a tool) raises the error instead, and
nothing is logged.

An address that accepts the connection and then does not answer is reported after three seconds,
whoever waits for it: it is a broker that hangs, or something else than a broker.
"""

import asyncio
import logging
from typing import Final

from odradek.client.cluster_view import ClusterView
from odradek.client.errors import AuthenticationFailed, SettingsError
from odradek.client.settings.shared import ClientSettings

_log = logging.getLogger("odradek.client")

_AGAIN_AFTER_S: Final = 60.0
_MIN_RETRIES: Final = 5
_SILENCE_S: Final = 3.0


class UnreachableBrokers:
    """The addresses that cannot be reached now, and when each was reported."""

    def __init__(self, settings: ClientSettings, view: ClusterView) -> None:
        self._settings = settings
        self._view = view
        self.goes_on = getattr(settings, "retries", _MIN_RETRIES) >= _MIN_RETRIES
        self._reported_s: dict[tuple[str, int], float] = {}
        # When silence of an address may be reported again.
        self._silent_until_s: dict[tuple[str, int], float] = {}

    def note_failure(self, host: str, port: int, error: BaseException, now_s: float) -> None:
        """Logs a failed connection, unless the address was reported within the last minute."""
        if isinstance(error, AuthenticationFailed | SettingsError):
            # It is not tried again: the caller is told.
            return
        reported_s = self._reported_s.get((host, port))
        if not self.goes_on or (reported_s is not None and now_s < reported_s + _AGAIN_AFTER_S):
            return
        still = "" if reported_s is None else "still "
        self._reported_s[host, port] = now_s
        _log.warning("%s%s; trying again. %s", still, error, self._advice(host, port))

    def watch_silence(self, host: str, port: int) -> asyncio.TimerHandle:
        """Starts the timer that reports silence; the caller cancels it when there is an answer."""
        loop = asyncio.get_running_loop()

        def report() -> None:
            now_s = loop.time()
            if now_s >= self._silent_until_s.get((host, port), now_s):
                self._silent_until_s[host, port] = now_s + _AGAIN_AFTER_S
                _log.warning(
                    "%s:%d accepts connections and has not answered for %d seconds; waiting. Is it"
                    " a broker, and is it well?",
                    host,
                    port,
                    _SILENCE_S,
                )

        return loop.call_later(_SILENCE_S, report)

    def note_closed(self, host: str, port: int, error: BaseException) -> None:
        """Logs that a broker closes connections at the first request, at most once a minute."""
        now_s = asyncio.get_running_loop().time()
        if self.goes_on and now_s >= self._silent_until_s.get((host, port), now_s):
            self._silent_until_s[host, port] = now_s + _AGAIN_AFTER_S
            _log.warning("%s; trying again", error)

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
        return f"Is the broker running, and is {servers} its address?"
