"""Where a persistent query runs: in this process, or on Spark, in a lane that it shares or its own.

The setting `odradek.sql.engine` says process or spark for the whole server. `SET
'odradek.sql.lane' = 'own'` before a statement gives its query a Spark of its own, through which its
records go.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from odradek.sql.engine.catalogue import QueryInfo
from odradek.sql.engine.handing_over import QueryText, omit_result, skip_record
from odradek.sql.engine.sessions import LANE, LANES
from odradek.sql.errors import Invalid, Place, Refused
from odradek.streams.plan.nodes import Plan
from odradek.streams.process.runner import Runner
from odradek.streams.spark.engine import SparkEngine, SparkRunner
from odradek.streams.spark.given import GivenQuery
from odradek.streams.spark.own_runner import OwnRunner, what_needs_state

AnyRunner = Runner | SparkRunner | OwnRunner
_PRELOADED: Final = "odradek.sql.engine.handing_over"


class PlacingSettings(Protocol):
    """What is needed of `EngineSettings`."""

    @property
    def client(self) -> Mapping[str, Any]: ...
    @property
    def replication_factor(self) -> int: ...
    @property
    def spark(self) -> Mapping[str, str] | None: ...


class Places:
    """Makes what runs queries. Nothing of Spark starts before the first query does."""

    def __init__(self, settings: PlacingSettings) -> None:
        self._settings = settings
        self._shared = None if settings.spark is None else SparkEngine(settings.spark, _PRELOADED)

    async def close(self) -> None:
        """To be called when no query runs any more."""
        if self._shared is not None:
            await self._shared.close()

    def check(self, properties: Mapping[str, str], plan: Plan, place: Place | None = None) -> None:
        """Raises `Refused` for a query that cannot run where it is to run, and `Invalid` if that is
        no lane: a request may have said it, and not SET."""
        lane = properties.get(LANE, "shared")
        if lane not in LANES:
            raise Invalid(f"{LANE} is shared or own, not '{lane}'", place)
        if lane == "shared":
            return
        if self._shared is None:
            raise Refused(f"{LANE}=own needs a server with odradek.sql.engine=spark", place)
        reason = what_needs_state(plan)
        if reason is not None:
            raise Refused(
                f"a query with {LANE}=own keeps no state, and this one has {reason}:"
                f" UNSET '{LANE}' before it", place,
            )  # fmt: skip

    def runner_of(self, text: QueryText, query: QueryInfo, application_id: str) -> AnyRunner:
        """Returns what runs a query. Raises `SqlError` if it cannot be compiled any more."""
        plan, settings = text(), self._settings
        self.check(query.properties, plan)
        if self._shared is None or settings.spark is None:
            return Runner(
                plan, application_id, settings.client, start=query.start,
                on_bad_record=skip_record, on_bad_result=omit_result,
                replication_factor=settings.replication_factor,
            )  # fmt: skip
        given = GivenQuery(
            text, application_id, settings.client, query.start, settings.replication_factor,
            skip_record, omit_result,
        )  # fmt: skip
        if query.properties.get(LANE) == "own":
            return OwnRunner(plan, given, settings.spark)
        return SparkRunner(self._shared, plan, given)
