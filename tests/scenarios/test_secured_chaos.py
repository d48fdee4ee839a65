"""Faults and rotations on a cluster with SASL_SSL between brokers and to clients, in short. Longer:
`python -m tests.scenarios.chaos --secured`, `... failures --secured`, `... rotation`."""

from pathlib import Path

from tests.scenarios.chaos_cluster import ChaosCluster
from tests.scenarios.chaos_run import ChaosRun, kill_and_restart
from tests.scenarios.rotation import rotate


def test_a_secured_cluster_loses_nothing_when_brokers_die(tmp_path: Path) -> None:
    with ChaosCluster(tmp_path, secured=True) as cluster, ChaosRun(cluster, partitions=3) as run:
        run.suffer("kill -9", run.seat_of("leader"), kill_and_restart)
        run.suffer("kill -9", run.seat_of("controller"), kill_and_restart)
        found = run.judge()
    assert not found, found[:10]


def test_keys_and_passwords_are_rotated_under_load(tmp_path: Path) -> None:
    run, found = rotate(tmp_path, rounds=1)
    assert not found, found[:10]
    assert not any(producer.failures for producer in run.producers)
