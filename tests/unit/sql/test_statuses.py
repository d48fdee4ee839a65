"""A query that does not run says so, and why, wherever queries are shown."""

import pytest

from odradek.cli.services.sql_actions import shown_entity
from odradek.schemas.registry_client import RegistryClient
from odradek.sql.engine.catalogue import Catalogue, QueryInfo, QueryStatus
from odradek.sql.engine.definitions import Defaults
from odradek.sql.engine.entities import described_query, entity, listed_query
from odradek.sql.engine.handing_over import QueryText
from odradek.sql.engine.placing import AnyRunner
from odradek.sql.engine.running import RunningQueries
from odradek.sql.errors import Invalid
from odradek.sql.formats.catalogue import Formats
from odradek.sql.testing import SqlTester
from odradek.streams.spark.given import GivenQuery

_STATEMENTS = """
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""


@pytest.fixture
def catalogue() -> Catalogue:
    tester = SqlTester()
    tester.run(_STATEMENTS)
    return tester.catalogue


async def test_a_query_that_cannot_be_compiled_is_in_error(catalogue: Catalogue) -> None:
    (query,) = catalogue.queries.values()

    def refuse(_: QueryInfo) -> AnyRunner:
        raise Invalid("there is no function OLD")

    running = RunningQueries({}, "test", refuse, catalogue)
    running.is_active = True
    running.start(query)
    statuses = running.statuses()
    listed = listed_query(query, catalogue, statuses)
    assert (listed["state"], listed["error"]) == ("ERROR", "there is no function OLD")
    (error,) = described_query(query, catalogue, statuses, "")["queryErrors"]
    assert error["errorMessage"] == "there is no function OLD"
    assert error["timestamp"] > 0
    shown = shown_entity(entity("queries", "", queries=[listed]))
    assert "there is no function OLD" in shown
    await running.stop(query.id)
    assert not running.statuses()


def test_a_query_that_runs_shows_no_error(catalogue: Catalogue) -> None:
    (query,) = catalogue.queries.values()
    listed = listed_query(query, catalogue, {query.id: QueryStatus("RUNNING")})
    assert "error" not in listed
    assert "error" not in shown_entity(entity("queries", "", queries=[listed]))


def test_another_process_compiles_the_same_plan(catalogue: Catalogue) -> None:
    (query,) = catalogue.queries.values()
    defaults = Defaults(formats=Formats(RegistryClient("http://127.0.0.1:1")))
    text = QueryText.of(query, defaults, None)
    given = GivenQuery.of(GivenQuery(text, "app", {}, {}, -1).to_text())
    names = [node.name for node in text().nodes]
    assert isinstance(given.make_plan, QueryText)
    assert given.make_plan.defaults.formats.registry is not None
    assert given.make_plan.defaults.formats.registry.url == "http://127.0.0.1:1"
    assert [node.name for node in given.make_plan().nodes] == names
