"""Runs a plan on topics, by an engine that is given by its name: `odradek.streams.run`."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from odradek.config.spelling import did_you_mean
from odradek.streams.plan.nodes import Plan
from odradek.streams.process.runner import Runner

ENGINES: Final = ("process", "spark")
LANES: Final = ("shared", "own")


async def run(
    plan: Plan,
    application_id: str,
    client: Mapping[str, Any],
    *,
    engine: str = "process",
    lane: str = "shared",
    spark: Mapping[str, str] | None = None,
) -> None:
    """Runs a plan until the task is cancelled, or another instance of it takes over.

    `engine` is process (this process) or spark (a process of its own, which works in the turns that
    a query of Spark gives it; `spark` has settings of that Spark). Both are exactly once, with the
    same topics for the state, so an application may go from one to the other. With Spark and
    `lane="own"` the records go through Spark, which a topology without state can have. Raises
    `ValueError` for another name, and `SparkMissing` if Spark needs something that is missing.
    """
    if engine not in ENGINES:
        raise ValueError(f"there is no engine {engine!r}{did_you_mean(engine, ENGINES)}")
    if lane not in LANES:
        raise ValueError(f"there is no lane {lane!r}{did_you_mean(lane, LANES)}")
    if engine == "process":
        if spark is not None or lane != "shared":
            raise ValueError("a lane and settings of Spark have no effect with engine='process'")
        await Runner(plan, application_id, client).run()
        return
    # Only who asks for Spark needs what it brings.
    from odradek.spark.prerequisites import require_spark  # noqa: PLC0415
    from odradek.streams.spark.engine import SparkEngine, SparkRunner  # noqa: PLC0415
    from odradek.streams.spark.given import GivenQuery, ReadyPlan  # noqa: PLC0415
    from odradek.streams.spark.own_runner import OwnRunner  # noqa: PLC0415

    await asyncio.to_thread(require_spark)
    given = GivenQuery(ReadyPlan(plan), application_id, client, {}, -1)
    if lane == "own":
        await OwnRunner(plan, given, spark or {}).run()
        return
    shared = SparkEngine(spark)
    try:
        await SparkRunner(shared, plan, given).run()
    finally:
        await shared.close()
