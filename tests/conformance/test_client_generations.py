"""Each generation of clients does what docs/reference/clients.md says of it."""

from collections.abc import Iterator

import pytest

from benchmarks.broker_process import BrokerProcess
from benchmarks.broker_process import odradek_broker as running_odradek
from tests.conformance.generations.matrix import (
    BROKER,
    GENERATIONS,
    PAGE,
    Generation,
    page,
    row,
    tell,
)
from tests.needs import need

pytestmark = pytest.mark.xdist_group("generations")
REMEDY = "run: python -m tests.conformance.generations docs/reference/clients.md"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_odradek(tmp_path_factory.mktemp("generations"), BROKER) as running:
        yield running


def rows() -> list[str]:
    """The rows of the table, without its head and the line below that."""
    return [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]


def test_the_page_has_a_row_for_each_generation() -> None:
    named = [tuple(cell.strip() for cell in line.split("|")[1:3]) for line in rows()]
    assert named == [(one.client, one.version or "Debian's") for one in GENERATIONS], REMEDY
    assert PAGE.read_text() == page(rows()), REMEDY


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda one: one.name)
def test_a_generation_does_what_the_page_says(
    generation: Generation, broker: BrokerProcess
) -> None:
    outcomes = need(lambda: tell(generation, broker.bootstrap))
    assert not [text for text in outcomes.values() if text.startswith("error")], outcomes
    assert row(generation, outcomes) in rows(), REMEDY
