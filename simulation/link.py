"""One direction of the network between two simulated hosts: delay, bandwidth, cuts."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.network import Network


class Link:
    """Packets that arrive while the link is cut are held until it is healed, as TCP would send them
    again."""

    __slots__ = ("_busy_until_s", "_held", "_network", "bytes_per_s", "delay_s", "is_cut")

    def __init__(self, network: "Network", delay_s: tuple[float, float]) -> None:
        self._network = network
        self._held: list[tuple[Callable[[], None], int]] = []
        self._busy_until_s = 0.0
        self.delay_s = delay_s
        self.bytes_per_s: float | None = None
        self.is_cut = False

    def carry(self, on_arrival: Callable[[], None], size_bytes: int = 0) -> None:
        """Brings a packet over, some time from now."""
        network = self._network
        loop = network.loop
        leaves_s = loop.time()
        if self.bytes_per_s is not None:
            leaves_s = max(leaves_s, self._busy_until_s) + size_bytes / self.bytes_per_s
            self._busy_until_s = leaves_s
        shortest_s, longest_s = self.delay_s
        arrives_s = leaves_s + (shortest_s + (longest_s - shortest_s) * network.random.random())
        loop.call_at(arrives_s, self._arrive, on_arrival, size_bytes, context=network.no_process)

    def _arrive(self, on_arrival: Callable[[], None], size_bytes: int) -> None:
        if self.is_cut:
            self._held.append((on_arrival, size_bytes))
        else:
            on_arrival()

    def tell(self, news: Callable[[], None]) -> None:
        """Delivers a signal without delay, unless the link is cut."""
        if self.is_cut:
            self.hold(news)
        else:
            news()

    def hold(self, news: Callable[[], None]) -> None:
        """Keeps a signal until the link is healed."""
        self._held.append((news, 0))

    def heal(self) -> None:
        self.is_cut = False
        held, self._held = self._held, []
        for on_arrival, size_bytes in held:
            self.carry(on_arrival, size_bytes)
