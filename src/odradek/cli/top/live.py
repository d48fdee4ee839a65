"""The page in a terminal: samples, keys and resizing, until the user quits."""

import argparse
import asyncio
import os
import signal
from typing import Final

from odradek.cli.lag.query_options import queries_of
from odradek.cli.top.page import Page
from odradek.cli.top.screen import Screen, keys_in
from odradek.client.errors import ClientError
from odradek.ops.top.monitor import Monitor, MonitorAdmin
from odradek.protocol.errors import KafkaError
from odradek.tools.admin_session import open_admin
from odradek.tools.failures import explain
from odradek.world.clock import SystemClock

_KEY_BYTES: Final = 1024


async def show_live(arguments: argparse.Namespace, page: Page, screen: Screen) -> int:
    """Raises what the first sample raises. Later failures are shown and do not end the page: a
    broker may be back soon."""
    live = _Live(page, screen)
    async with open_admin(MonitorAdmin, arguments) as admin:
        monitor = Monitor(admin, SystemClock(), arguments.ports, queries_of(arguments))
        page.update(await monitor.refresh())
        with live:
            sampling = asyncio.create_task(live.sample(monitor, arguments))
            try:
                await live.run()
            finally:
                # At once: what is closed after it may wait for brokers.
                screen.close()
                sampling.cancel()
                await asyncio.gather(sampling, return_exceptions=True)
    return 0


class _Live:
    """While it is entered, keys and signals of the terminal arrive here."""

    def __init__(self, page: Page, screen: Screen) -> None:
        self._page = page
        self._screen = screen
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._is_resized = False
        self._goes_on = True

    def __enter__(self) -> None:
        loop = self._loop
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        loop.add_signal_handler(signal.SIGTERM, self._quit)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        if self._screen.keyboard is not None:
            loop.add_reader(self._screen.keyboard, self._pressed, self._screen.keyboard)
        self._changed.set()

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGTSTP):
            self._loop.remove_signal_handler(number)
        if self._screen.keyboard is not None:
            self._loop.remove_reader(self._screen.keyboard)

    async def run(self) -> None:
        """Draws the page whenever something has changed, until the user quits."""
        while self._goes_on:
            await self._changed.wait()
            self._changed.clear()
            again, self._is_resized = self._is_resized, False
            if self._goes_on:
                self._screen.draw(self._page.lines(*self._screen.size()), again=again)

    async def sample(self, monitor: Monitor, arguments: argparse.Namespace) -> None:
        # The second sample gives the rates, so the page does not wait long for it.
        await asyncio.sleep(min(1.0, arguments.interval))
        while True:
            try:
                self._page.update(await monitor.refresh())
            except (KafkaError, ClientError, OSError, TimeoutError) as error:
                self._page.problem = " ".join(explain(error, arguments).split())
            self._changed.set()
            await asyncio.sleep(arguments.interval)

    def _pressed(self, keyboard: int) -> None:
        data = os.read(keyboard, _KEY_BYTES)
        if not data:
            # The terminal is gone.
            self._quit()
        for key in keys_in(data):
            self._goes_on = self._goes_on and self._page.press(key)
        self._changed.set()

    def _resized(self) -> None:
        self._is_resized = True
        self._changed.set()

    def _quit(self) -> None:
        self._goes_on = False
        self._changed.set()

    def _suspend(self) -> None:
        """Ctrl-Z: gives the terminal back, stops, and takes it again when the shell goes on."""
        self._screen.close()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._screen.open()
        self._resized()
