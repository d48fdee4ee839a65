"""Engines are named, and what has no effect is refused; no engine starts here."""

import asyncio
from pathlib import Path

import pytest

from odradek.streams import StreamsBuilder, run
from odradek.streams.plan.nodes import Plan
from odradek.streams.process.runner import State
from odradek.streams.spark.engine import SparkEngine, SparkRunner
from odradek.streams.spark.given import GivenQuery


@pytest.fixture
def plan() -> Plan:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder.build()


async def test_a_misspelt_engine_is_refused(plan: Plan) -> None:
    with pytest.raises(ValueError, match=r"no engine 'spork'; did you mean spark\?"):
        await run(plan, "app", {}, engine="spork")
    with pytest.raises(ValueError, match="no lane 'fast'"):
        await run(plan, "app", {}, engine="spark", lane="fast")


async def test_settings_of_spark_have_no_effect_without_it(plan: Plan) -> None:
    with pytest.raises(ValueError, match="have no effect with engine='process'"):
        await run(plan, "app", {}, spark={"spark.master": "local[1]"})
    with pytest.raises(ValueError, match="have no effect with engine='process'"):
        await run(plan, "app", {}, lane="own")


async def test_a_query_says_what_spark_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    runner = SparkRunner(SparkEngine(), Plan(()), GivenQuery(_known, "app", {}, {}, -1))
    running = asyncio.create_task(runner.run())
    async with asyncio.timeout(10):
        while runner.error is None:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
    assert "install" in runner.error
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert runner.state is State.STOPPED


def _known() -> Plan:
    """A plan that can be pickled: by the name of the function that makes it."""
    return Plan(())
