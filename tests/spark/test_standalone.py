"""Source and sink on a Spark cluster, not in one process: a master and two workers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.testing import Cluster
from tests.needs import need
from tests.spark.conftest import java
from tests.spark.standalone import ENVIRONMENT, WORKERS, standalone
from tests.spark.topics import fill, values_in

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs 127.0.0.2, which Linux has"),
]


def test_a_cluster_reads_and_writes(brokers: Cluster, tmp_path: Path) -> None:
    need(java)
    source, sink = brokers.create_topic(partitions=2), brokers.create_topic(partitions=2)
    wanted = [b"value %d" % index for index in range(200)]
    fill(brokers, source, wanted)
    words = [sys.executable, "-m", "tests.spark.standalone_driver"]
    with standalone(tmp_path / "spark") as master:
        done = subprocess.run(
            [*words, master, brokers.bootstrap, source, sink, str(tmp_path)],
            cwd=Path(__file__).parents[2],
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    read = json.loads(done.stdout)
    assert sorted(value.encode() for value, _ in read) == sorted(wanted)
    hosts = {Path(process).relative_to(tmp_path / "spark").parts[0] for _, process in read}
    assert hosts == set(WORKERS)
    assert sorted(values_in(brokers, sink, 2)) == sorted(value.upper() for value in wanted)
