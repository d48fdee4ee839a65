"""A short run of chaos. Longer: ``python -m tests.scenarios.chaos --seconds 600``."""

from pathlib import Path

from simulation.checkers import History
from tests.scenarios.chaos_cluster import ChaosCluster
from tests.scenarios.chaos_load import judge_load, judge_transactions
from tests.scenarios.chaos_run import (
    MARKER,
    ChaosRun,
    kill_and_restart,
    paused_for,
    stop_and_restart,
)


def test_a_cluster_loses_nothing_when_brokers_die_stop_and_stall(tmp_path: Path) -> None:
    with ChaosCluster(tmp_path) as cluster, ChaosRun(cluster, partitions=3) as run:
        killed = run.suffer("kill -9", run.seat_of("leader"), kill_and_restart)
        run.suffer("clean stop", run.seat_of("controller"), stop_and_restart)
        run.suffer("SIGSTOP 1 s", run.seat_of("leader"), paused_for(1))
        found = run.judge()
        # What --encrypted searches for, and what it finds where nothing is encrypted.
        assert cluster.files_with(MARKER.encode())
    assert not found, found[:10]
    assert run.transactions is not None
    assert "committed" in run.transactions.fates.values()
    # Generous, because machines that run tests are busy: it is a tenth of that elsewhere.
    assert killed.without_leader_s < 5


# The judgement can fail


def test_a_lost_a_doubled_and_a_turned_record_are_found() -> None:
    def judged(*records: tuple[int, bytes]) -> list[str]:
        history = History()
        for number in range(3):
            send = history.sending("p", 0, b"p:%d" % number)
            history.acknowledged(send, number)
        return judge_load(history, [], {0: list(records)})

    whole = ((0, b"p:0"), (1, b"p:1"), (2, b"p:2"))
    assert judged(*whole) == []
    assert any("lost" in line for line in judged((0, b"p:0"), (2, b"p:2")))
    assert any("duplicate" in line for line in judged(*whole, (3, b"p:2")))
    assert any("out of order" in line for line in judged((0, b"p:1"), (1, b"p:0"), (2, b"p:2")))


def test_a_torn_a_lost_and_an_aborted_transaction_are_found() -> None:
    whole = {0: [(0, b"1")], 1: [(0, b"1")]}
    nothing: dict[int, list[tuple[int, bytes]]] = {0: [], 1: []}
    torn: dict[int, list[tuple[int, bytes]]] = {0: [(0, b"1")], 1: []}
    assert judge_transactions({1: "committed"}, whole) == []
    assert judge_transactions({1: "unknown"}, whole) == judge_transactions({1: "unknown"}, nothing)
    assert judge_transactions({1: "committed"}, nothing)
    assert judge_transactions({1: "aborted"}, whole)
    assert judge_transactions({1: "unknown"}, torn)
    assert judge_transactions({}, whole)
