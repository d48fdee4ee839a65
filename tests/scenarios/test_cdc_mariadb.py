"""Change data capture survives kills. Longer: ``python -m tests.scenarios.cdc_mariadb``."""

from pathlib import Path

import pytest

from benchmarks.broker_process import odradek_broker as running_odradek
from tests.database_servers import mariadb_program, running_mariadb
from tests.needs import need
from tests.scenarios.cdc_mariadb import CdcUnderKills


@pytest.mark.xdist_group("mariadb")
def test_no_change_is_lost_or_doubled_when_the_worker_is_killed(tmp_path: Path) -> None:
    with (
        running_mariadb(need(mariadb_program)) as server,
        running_odradek(tmp_path / "broker") as broker,
    ):
        tally = CdcUnderKills(tmp_path, broker.bootstrap, server, seed=1).run(3000, kills=2)
    assert tally.doubled == 0
    assert tally.operations["d"] > 0
