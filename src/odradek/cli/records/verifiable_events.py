"""The output of the verifiable producer and consumer: each event is one line of JSON."""

from odradek.tools.terminal import flush_out, print_json
from odradek.world import SystemClock


class Events:
    """Prints events and flushes after each, so that a program that reads them sees each at once."""

    def __init__(self) -> None:
        self.clock = SystemClock()

    def emit(self, name: str, **details: object) -> None:
        print_json({"timestamp": self.clock.now_ms(), "name": name, **details})
        flush_out()
