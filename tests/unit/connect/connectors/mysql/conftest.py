from collections.abc import Callable, Iterator

import pytest

from tests.database_servers import MariaDb
from tests.unit.connect.connectors.mysql.mysql_bench import Bench


@pytest.fixture
def bench(mariadb_server: MariaDb) -> Iterator[Callable[..., Bench]]:
    """Makes databases with tasks that capture them; properties are given with underscores."""
    made: list[Bench] = []

    def make(**properties: str) -> Bench:
        made.append(Bench(mariadb_server, **properties))
        return made[-1]

    yield make
    for one in made:
        one.close()
