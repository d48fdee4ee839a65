"""Connections that are no use to anyone: silent ones, and ones that send a byte now and then."""

import asyncio
import contextlib

from tests.fuzz.wire import Wire

_BETWEEN_BYTES_S = 0.5


class Crowd:
    """Opens its connections, keeps them until cancelled, and counts those the broker closed."""

    def __init__(self, host: str, port: int, silent: int, slow: int) -> None:
        self._address = (host, port)
        self._silent = silent
        self._slow = slow
        self.refused = 0
        self.closed = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._silent + self._slow):
                tasks.create_task(self._stand(is_slow=number < self._slow))

    async def _stand(self, *, is_slow: bool) -> None:
        try:
            wire = await Wire.open(*self._address)
        except OSError:
            self.refused += 1
            return
        with contextlib.closing(wire):
            try:
                if is_slow:
                    await self._drip(wire)
                else:
                    await wire.read_frame()
            except ConnectionError:
                self.closed += 1

    async def _drip(self, wire: Wire) -> None:
        """A frame of a hundred bytes, of which one comes at a time."""
        answer = asyncio.create_task(wire.read_frame())
        try:
            for byte in b"\x00\x00\x00\x64" + bytes(90):
                wire.write(bytes([byte]))
                done, _ = await asyncio.wait({answer}, timeout=_BETWEEN_BYTES_S)
                if done:
                    break
            await answer
        finally:
            answer.cancel()
