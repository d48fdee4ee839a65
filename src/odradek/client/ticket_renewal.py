"""Renews a ticket cache of Kerberos while a client uses it, as Java's clients do.

A ticket that was got by `kinit` lasts for hours, and a program for weeks. As long as a ticket has
not expired, the KDC gives a new one for it, up to its end as a renewable ticket (`kinit -r`). So
`kinit -R` is run when four fifths of the time that is left have passed, and again after ten seconds
if it fails, for the KDC may be away. If it fails twice, the next log-in begins anew: somebody else
may have made a new ticket meanwhile.

There is nothing to close: the timer does not keep a client in memory that nobody uses any more.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from weakref import ref

from odradek.security.kerberos.library import KerberosFailed, renew_cache
from odradek.world.randomness import Randomness
from odradek.world.workers import AbandonableCalls

logger = logging.getLogger("odradek.client")

# Java's defaults. The jitter keeps a thousand clients from asking the KDC at the same moment.
_WINDOW: Final = 0.8
_JITTER: Final = 0.05
_AGAIN_S: Final = 10.0
_MIN_PAUSE_S: Final = 1.0


class TicketRenewal:
    """Invariant: either a task is under way, or a timer is set, or the next log-in begins."""

    def __init__(
        self, cache: str | None, left_s: Callable[[], float | None], calls: AbandonableCalls
    ) -> None:
        """`cache` is None for the default one. `left_s` returns how long its ticket is good, and
        None for ever; it raises `KerberosFailed`. It is called in a thread."""
        self._cache = cache
        self._left_s = left_s
        self._calls = calls
        self._randomness = Randomness()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Whether the newest `kinit` has failed.
        self._has_failed = False

    def begin(self) -> None:
        """Called at each log-in."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # The client is used in another event loop than before, which has ended.
            self._loop, self._timer, self._task = loop, None, None
        if self._timer is None and self._task is None:
            self._has_failed = False
            self._task = loop.create_task(self._plan())

    async def wait(self) -> bool:
        """Waits for `kinit` if it runs just now: it empties a cache before it fills it again.
        Returns whether there was something to wait for."""
        task = self._task
        if task is None:
            return False
        await asyncio.wait([task])
        return True

    async def _plan(self) -> None:
        """Looks how long the ticket is good, and sets the timer."""
        try:
            left_s = await self._calls.run(self._left_s)
        except KerberosFailed:
            left_s = None  # The log-in says why.
        self._task = None
        if left_s:
            part = _WINDOW + _JITTER * self._randomness.fraction()
            self._set_timer(max(_MIN_PAUSE_S, part * left_s))

    def _set_timer(self, pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(pause_s, _renew, ref(self))

    def renew(self) -> None:
        """Called by the timer."""
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        try:
            await self._calls.run(lambda: renew_cache(self._cache))
        except KerberosFailed as error:
            self._task = None
            logger.warning("%s", error)
            if not self._has_failed:
                self._set_timer(_AGAIN_S)
            self._has_failed = True
        else:
            logger.debug("the tickets of %s were renewed", self._cache or "the default cache")
            self._has_failed = False
            await self._plan()


def _renew(reference: "ref[TicketRenewal]") -> None:
    renewal = reference()
    if renewal is not None:
        renewal.renew()
