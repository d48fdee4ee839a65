"""The shared lane with a real Spark: what it promises to connectors. The long forms are
`python -m tests.scenarios.connect_isolation` and `python -m tests.scenarios.connect_kills`."""

from math import inf

from tests.needs import need
from tests.scenarios import connect_isolation, connect_kills
from tests.spark.conftest import java


async def test_connectors_do_not_notice_one_that_hangs_and_one_that_floods() -> None:
    need(java)
    odd = ("HangsInC", "Fails", "Floods")
    result = await connect_isolation.measured("spark", 8, 3.0, odd)
    # Other tests run at the same time, and have run in this process, which is the worker here.
    connect_isolation.check(result, noise_ms=1000, status_s=15, worker_mb=inf)


async def test_whoever_is_killed_nothing_is_lost_or_written_twice() -> None:
    need(java)
    assert await connect_kills.play(["host", "worker"], seed=1) > 0
