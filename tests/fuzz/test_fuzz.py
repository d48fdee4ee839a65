"""A short run of the fuzzer, against a broker of its own. `python -m tests.fuzz` is the long one.

Time is not judged here as strictly as there: on a machine that runs other tests as well it
says more about them.
"""

import asyncio
from pathlib import Path
from random import Random

import pytest

from benchmarks.broker_process import odradek_broker
from odradek.protocol.apis import all_apis
from odradek.protocol.headers import decode_request_header
from tests.fuzz.crowd import Crowd
from tests.fuzz.inputs import KINDS, InputSource
from tests.fuzz.report import Limits
from tests.fuzz.requests import RequestMaker, Surroundings
from tests.fuzz.run import fuzz

LIMITS = Limits(canary_p99_ms=500, stall_ms=2000)
EVERYTHING = Surroundings(
    {key: (api.min_version, api.max_version) for key, api in all_apis().items()},
    ["fuzz-0", "fuzz-1"],
    [bytes(range(16))],
)


def test_a_broker_minds_none_of_it(tmp_path: Path) -> None:
    with odradek_broker(tmp_path) as broker:
        report = asyncio.run(
            fuzz("127.0.0.1", broker.port, inputs=6000, pid=broker.process_id, silent=50, slow=10)
        )
    assert report.violations == []
    assert report.faults(LIMITS) == []
    assert report.inputs == 6000
    assert report.outcomes["answered"] > 1000


def test_a_seed_repeats_its_inputs() -> None:
    one, other = InputSource(1, EVERYTHING), InputSource(1, EVERYTHING)
    assert [one.input(number) for number in range(50)] == [
        other.input(number) for number in range(50)
    ]
    assert InputSource(2, EVERYTHING).input(0) != one.input(0)


def test_every_kind_of_input_occurs() -> None:
    source = InputSource(0, EVERYTHING)
    assert {source.input(number).kind for number in range(500)} == set(KINDS)


@pytest.mark.parametrize("key", all_apis(), ids=lambda key: all_apis()[key].name)
def test_valid_requests_are_valid(key: int) -> None:
    random = Random(key)
    maker = RequestMaker(random, EVERYTHING)
    for _ in range(20):
        frame = maker.frame(key)
        header, position = decode_request_header(frame[4:])
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert header.api_key == key
        all_apis()[key].request.decode(frame[4:], header.api_version, position)


def test_connections_that_are_no_use_are_closed(tmp_path: Path) -> None:
    """Silent ones, and ones whose request never becomes whole."""
    with odradek_broker(tmp_path, {"connections.max.idle.ms": "1000"}) as broker:
        crowd = Crowd("127.0.0.1", broker.port, silent=300, slow=30)

        async def stand() -> None:
            async with asyncio.timeout(40):
                await crowd.run()

        asyncio.run(stand())
    assert (crowd.refused, crowd.closed) == (0, 330)
