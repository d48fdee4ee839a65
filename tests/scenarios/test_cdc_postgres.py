"""A short run of the scenario; the long ones are for people."""

from pathlib import Path

import pytest

from tests.database_servers import postgres_programs, running_postgres
from tests.needs import need
from tests.scenarios.cdc_postgres import CdcPostgres


@pytest.mark.xdist_group("postgres")
def test_the_topic_is_the_table_whenever_the_worker_dies(tmp_path: Path) -> None:
    with running_postgres(need(postgres_programs)) as server:
        tally = CdcPostgres(tmp_path, server, seed=1, changes=2_000, kills=2).run()
    assert tally.kills_in_snapshot + tally.kills_in_stream == 2
