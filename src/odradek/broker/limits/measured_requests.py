"""What a request has used so far: its size, and the time of the event loop."""

from collections.abc import Callable
from typing import Final

from odradek.broker.network.reply_writer import Transferable
from odradek.security.quotas.clients import ClientLimits
from odradek.world.disk import Buffer
from odradek.world.timeslice import read_stopwatch

# Reading a request from its socket and writing a small reply happen outside of what can be measured
# for a request. Together with the turn of the event loop they take about so long (decision 38).
_SOCKET_S: Final = 20e-6


class MeasuredRequest:
    """A request that is served in one or several steps. `resume` and `pause` enclose each step."""

    __slots__ = ("_begun_s", "_spent_s", "is_counted", "limits", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        # The limits of its client, from the moment at which its handler is called.
        self.limits: ClientLimits | None = None
        # Whether its bytes are counted.
        self.is_counted = False
        self._spent_s = _SOCKET_S
        self._begun_s: float | None = None

    def resume(self) -> None:
        self._begun_s = read_stopwatch()

    def pause(self) -> None:
        self._take_time()
        self._begun_s = None

    def take_spent_s(self) -> float:
        """Returns the time that was spent since the last call, and forgets it."""
        self._take_time()
        spent_s, self._spent_s = self._spent_s, 0.0
        return spent_s

    def _take_time(self) -> None:
        if self._begun_s is not None:
            now_s = read_stopwatch()
            self._spent_s += now_s - self._begun_s
            self._begun_s = now_s


class MeasuredRecords:
    """Records of a reply that measure how long sending them takes."""

    __slots__ = ("_count", "_measured", "_records")

    def __init__(
        self,
        records: Transferable,
        measured: MeasuredRequest,
        count: Callable[[MeasuredRequest], object],
    ) -> None:
        self._records = records
        self._measured = measured
        self._count = count

    def __len__(self) -> int:
        return len(self._records)

    def read(self, start: int, length: int) -> bytes:
        self._measured.resume()
        try:
            return self._records.read(start, length)
        finally:
            self._measured.pause()

    def read_some(self, start: int, length: int) -> Buffer:
        self._measured.resume()
        try:
            return self._records.read_some(start, length)
        finally:
            self._measured.pause()

    def send(self, descriptor: int, start: int, length: int) -> int:
        self._measured.resume()
        try:
            return self._records.send(descriptor, start, length)
        finally:
            self._measured.pause()

    def release(self) -> None:
        self._records.release()
        self._count(self._measured)
