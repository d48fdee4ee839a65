"""Database servers, one of each kind for all tests of a process. Tests that use one belong to the
group of its name (`pytest.mark.xdist_group`), so that one process starts it."""

from collections.abc import Iterator

import pytest

from tests.database_servers import (
    MariaDb,
    Postgres,
    mariadb_program,
    postgres_programs,
    running_mariadb,
    running_postgres,
)
from tests.needs import need


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    with running_postgres(need(postgres_programs)) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDb]:
    with running_mariadb(need(mariadb_program)) as server:
        yield server
