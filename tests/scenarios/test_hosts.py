"""A short run on hosts of their own. Longer: ``python -m tests.scenarios.hosts --minutes 30``."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from odradek.client.errors import BadResponse, ProducerFenced, TimedOut
from odradek.protocol.errors import ErrorCode
from odradek.protocol.errors import KafkaError as OwnKafkaError
from simulation.checkers import History
from tests.scenarios.chaos_load import TransactionalLoad, not_allowed
from tests.scenarios.hosts.judging import PairsSeen, judge_load, value_in
from tests.scenarios.hosts.network import Network
from tests.scenarios.hosts.router import Rule
from tests.scenarios.hosts.run import HostsRun, possible
from tests.scenarios.hosts.workload import Copy, Load, Pairs
from tests.scenarios.namespaces import CannotRun, inside

_SHORT = {"cut-out": 2.0, "loss": 3.0, "delay": 2.0, "reorder": 2.0, "stall": 2.0, "kill": 0.5}


def _network(*hosts: int) -> Network:
    try:
        return Network(hosts, seed=1)
    except CannotRun as reason:
        pytest.skip(str(reason))


def test_clients_of_every_kind_see_no_anomaly_while_hosts_suffer(tmp_path: Path) -> None:
    _network().remove()
    with HostsRun(tmp_path, store="embedded", seed=1) as run:
        for name in possible(run, list(_SHORT)):
            print(run.suffer(name, _SHORT[name]))
        found = run.judge()
        print(run.table())
    assert not found, found[:10]
    assert all(cost.acknowledged for cost in run.costs.values())
    assert "committed" in run.pairs.fates.values()
    assert all(copy.commits for copy in run.copies)


# The router can do what it is told


_ECHO = (
    "import socket, sys\n"
    "listener = socket.create_server((sys.argv[1], 7))\n"
    "print('ready', flush=True)\n"
    "while True:\n"
    "    peer, _ = listener.accept()\n"
    "    while data := peer.recv(65536): peer.sendall(data)\n"
)


def _round_trip_s(address: str, data: bytes) -> float:
    with socket.create_connection((address, 7), 5) as connection:
        began_s = time.monotonic()
        connection.settimeout(30)
        connection.sendall(data)
        got = connection.makefile("rb").read(len(data))
        assert got == data
        return time.monotonic() - began_s


def test_the_router_delays_loses_doubles_and_turns_packets_and_tcp_copes() -> None:
    network = _network(1)
    command = [*inside(network.name(1)), sys.executable, "-c", _ECHO]
    echo = subprocess.Popen([*command, network.address(1)], stdout=subprocess.PIPE)
    try:
        assert echo.stdout is not None
        assert echo.stdout.readline() == b"ready\n"
        address, data = network.address(1), bytes(range(256)) * 256
        _round_trip_s(address, data)
        network.rule((None, 1, Rule(delay_s=0.2)), (1, None, Rule(delay_s=0.2)))
        assert _round_trip_s(address, b"x") >= 0.4
        network.rule((None, None, Rule(loss=0.05, duplicate=0.3, reorder=0.3)))
        _round_trip_s(address, data)
        for one_way in ((1, None), (None, 1)):
            network.rule((*one_way, Rule(cut=True)))
            with pytest.raises(TimeoutError):
                socket.create_connection((address, 7), 1)
        network.rule()
        _round_trip_s(address, data)
    finally:
        echo.kill()
        echo.communicate()
        network.remove()


# The judgement can fail


class _NoNetwork(Network):
    def __init__(self) -> None:
        """For judging alone."""


def _load(history: History) -> Load:
    load = Load(_NoNetwork(), "nowhere:1", 1)
    load.history = history
    return load


def test_what_a_group_or_a_follower_never_saw_is_an_anomaly() -> None:
    history = History()
    for offset in range(3):
        history.acknowledged(history.sending("own", 0, b"own:%d" % offset), offset)
        if offset < 2:
            history.polled("follower", 0, offset, b"own:%d" % offset)
    load = _load(history)
    load.read_by_group["group"] |= {b"own:0", b"own:2"}
    found = judge_load(load, {0: [(0, b"own:0"), (1, b"own:1"), (2, b"own:2")]})
    assert found == ["unseen by group group: b'own:1'", "unseen by follower: b'own:2' at 2"]
    assert value_in(found[0]) == b"own:1"


def test_what_was_acknowledged_without_an_offset_must_be_there() -> None:
    history = History()
    kept, lost = (history.sending("librdkafka", 0, b"librdkafka:%d" % one) for one in range(2))
    load = _load(history)
    load.unplaced += [kept, lost]
    assert judge_load(load, {0: [(0, b"librdkafka:0")]}) == ["lost: b'librdkafka:1'"]


def test_a_read_of_an_aborted_or_an_open_transaction_is_an_anomaly() -> None:
    pairs, seen = Pairs(_load(History()), 1), PairsSeen()
    pairs.fates = {1: "committed", 2: "aborted", 3: "committed"}
    pairs.commit_begun_s = {1: time.monotonic() - 1, 3: time.monotonic() + 60}
    for offset in (1, 2, 3):
        seen.note(0, offset, b"%d" % offset)
    found = seen.judge(pairs)
    assert found == ["aborted read: transaction 2", "read before commit: transaction 3"]


class _FencedProducer(TransactionalLoad):
    """Whose first transaction ends with a fatal error after some time, and which then stops."""

    def __init__(self, open_s: float) -> None:
        super().__init__("nowhere:1")
        self._open_s = open_s

    def _new(self) -> Producer:
        self.lives += 1
        return Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})

    def _now_s(self) -> float:
        return self._open_s if self._stops.is_set() else 0.0

    def _transact(self, producer: Producer, number: int) -> None:
        self.stop()
        raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


@pytest.mark.parametrize(("open_s", "is_allowed"), [(14.9, False), (15.1, True)])
def test_a_producer_dies_of_a_fatal_error_only_after_the_time_of_its_transaction(
    open_s: float, is_allowed: bool
) -> None:
    load = _FencedProducer(open_s)
    load.work()
    (death,) = load.deaths
    assert bool(death.allowed) is is_allowed
    assert "_FENCED" in death.reason
    assert load.lives == 2, "another one takes its place"
    assert [str(one) for one in not_allowed(load.deaths)] == ([] if is_allowed else [str(death)])


def test_a_copy_may_lose_its_patience_and_be_refused_after_the_time_of_its_transaction() -> None:
    refusals = (ProducerFenced("by another"), OwnKafkaError(ErrorCode.INVALID_TXN_STATE))
    for open_s, allowed in ((19.9, [True, False, False, False]), (20.1, [True, True, True, False])):
        load = _load(History())
        copy = Copy(load, 1, "classic")
        copy.begun_s = time.monotonic() - open_s
        for error in (TimedOut("nobody answered"), *refusals, BadResponse("nonsense")):
            copy.note_death(error)
        assert [bool(death.allowed) for death in load.deaths] == allowed
        assert copy.restarts == 4
