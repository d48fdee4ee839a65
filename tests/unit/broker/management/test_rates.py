"""The rates of Kafka's meters are noted in virtual time."""

import asyncio
import errno

from odradek.broker.management.rates import Rates
from odradek.telemetry.catalogue import topics
from odradek.telemetry.declarations import Collected
from simulation.run import run
from simulation.world import Simulation


def test_a_note_that_fails_for_want_of_descriptors_is_taken_at_the_next_interval() -> None:
    async def main(simulation: Simulation) -> float:
        clock = simulation.host("broker").clock
        calls = 0

        async def collect() -> Collected:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise OSError(errno.EMFILE, "Too many open files")
            collected = Collected()
            collected.add(topics.BYTES_IN, 1500, "")
            return collected

        rates = Rates(clock)
        noting = asyncio.ensure_future(rates.run(collect))
        await asyncio.sleep(75)
        noting.cancel()
        assert calls in (4, 5)  # The fifth is due at the moment at which the test ends.
        return rates.attributes(topics.BYTES_IN, ("",), 3000)["OneMinuteRate"]

    # Noted at 30 s with 1,500; at 75 s it is 3,000.
    assert run(main, 1).value == 1500 / 45
