"""Where a query runs, and what is refused there."""

import pytest

from odradek.client.errors import SettingsError
from odradek.sql.engine.engine import EngineSettings
from odradek.sql.engine.handing_over import QueryText
from odradek.sql.engine.placing import Places
from odradek.sql.engine.sessions import Session
from odradek.sql.errors import Invalid, Refused
from odradek.sql.language.parser import Part, parse, split
from odradek.sql.settings import SqlSettings
from odradek.sql.testing import SqlTester
from odradek.streams.plan.nodes import Plan
from odradek.streams.spark.own_runner import OwnRunner

_OWN = {"odradek.sql.lane": "own"}
_SOURCES = """
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE d (k INT PRIMARY KEY, v INT) WITH (kafka_topic='d', value_format='JSON');
"""
_FLAT = "CREATE STREAM f AS SELECT k, v + 1 AS v FROM s WHERE v > 2;"


def _places(*, on_spark: bool) -> Places:
    return Places(EngineSettings("test", {}, spark={} if on_spark else None))


def _part(text: str) -> Part:
    (part,) = split(text)
    return part


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;", "an aggregate"),
        ("CREATE TABLE t AS SELECT k, v FROM d;", "a table"),
        ("CREATE STREAM t AS SELECT s.k, d.v FROM s JOIN d ON s.k = d.k;", "a table"),
        (
            "CREATE STREAM t AS SELECT a.k, b.v FROM s a JOIN s b WITHIN 1 HOUR ON a.k = b.k;",
            "a join of streams",
        ),
    ],
)
async def test_a_query_with_state_is_refused_a_lane_of_its_own(statement: str, what: str) -> None:
    tester = SqlTester()
    tester.run(_SOURCES)
    tester.run(statement)
    (query,) = tester.catalogue.queries.values()
    query.properties = _OWN
    text = QueryText.of(query, tester.defaults, None)
    places = _places(on_spark=True)
    with pytest.raises(Refused, match=rf"keeps no state, and this one has {what} \("):
        places.check(_OWN, text())
    with pytest.raises(Refused, match="keeps no state"):
        places.runner_of(text, query, "app")


async def test_a_query_without_state_gets_a_lane_of_its_own_on_spark_alone() -> None:
    tester = SqlTester()
    tester.run(_SOURCES + _FLAT)
    (query,) = tester.catalogue.queries.values()
    query.properties = _OWN
    text = QueryText.of(query, tester.defaults, None)
    assert isinstance(_places(on_spark=True).runner_of(text, query, "app"), OwnRunner)
    with pytest.raises(Refused, match="needs a server with odradek"):
        _places(on_spark=False).check(_OWN, text())


def test_a_lane_that_there_is_not_is_refused() -> None:
    session = Session()
    with pytest.raises(Invalid, match="is shared or own, not 'fast'"):
        session.note(parse(_part("SET 'odradek.sql.lane' = 'fast';"), {}))
    assert session.note(parse(_part("SET 'odradek.sql.lane' = 'own';"), {}))
    with pytest.raises(Invalid, match="is shared or own, not 'fast'"):
        _places(on_spark=True).check({"odradek.sql.lane": "fast"}, Plan(()))
    assert session.not_obeyed() == []


def test_settings_of_spark_need_the_engine_spark() -> None:
    settings = SqlSettings.from_file(
        {"odradek.sql.engine": "spark", "spark.master": "spark://there:7077"}
    )
    assert settings.engine_settings().spark == {"spark.master": "spark://there:7077"}
    assert SqlSettings.from_file({"odradek.sql.engine": "spark"}).engine_settings().spark == {}
    assert SqlSettings.from_file({}).engine_settings().spark is None
    with pytest.raises(SettingsError, match=r"spark\.master has no effect without"):
        SqlSettings.from_file({"spark.master": "spark://there:7077"})
    with pytest.raises(SettingsError, match="process or spark, not 'flink'"):
        SqlSettings.from_file({"odradek.sql.engine": "flink"})
