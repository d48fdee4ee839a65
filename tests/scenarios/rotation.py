"""Rotates certificates and a password under load: no send may fail.

    python -m tests.scenarios.rotation [--rounds N]

Three brokers with SASL_SSL between them and to their clients. Each round

1. renews the certificates of all brokers with `odradek certs renew`, and waits until each shows the
   new one to new connections;
2. gives the user of the load another password, and tells the clients, as an operator does by a
   file that they read;
3. gives the brokers themselves another password: first the user's credential, then the log-in of
   each broker, by `odradek configs`;
4. restarts one broker, so that every client has to connect again with the new password, and every
   broker to a certificate that is new, with the brokers' new password.

At the end every acknowledged record must be there once, and the first password must be refused.
"""

import argparse
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from odradek.client.errors import AuthenticationFailed
from odradek.client.sync import Admin
from odradek.local.securing import BROKER
from tests.scenarios.chaos_cluster import ChaosCluster, Seat, odradek
from tests.scenarios.chaos_run import ChaosRun, report, stop_and_restart

_LOADS_S = 30.0
_RELOAD_MS = 200
# `admin`: the rest of the load (transactions, the watch) may do without permissions of its own.
_USER = "admin"
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_LOG_IN = "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"


class Rotation:
    """Rotates the keys and the passwords of a cluster on which a load runs."""

    def __init__(self, cluster: ChaosCluster, run: ChaosRun) -> None:
        self._cluster = cluster
        self._run = run
        self._file = cluster.directory / "client.properties"
        self._password = cluster.login["sasl.password"]
        self._first = cluster.own_login | {"bootstrap.servers": cluster.bootstrap}

    def renew_certificates(self) -> float:
        """Returns how long it took until every broker showed a new certificate."""
        before = {seat.id: _certificate(seat) for seat in self._cluster.seats.values()}
        self._tool("certs", "renew", "--dir", str(self._cluster.directory / "security"))
        began_s = time.monotonic()
        for seat in self._cluster.seats.values():
            while _certificate(seat) == before[seat.id]:
                assert time.monotonic() - began_s < _LOADS_S, f"broker {seat.id} keeps its key"
                time.sleep(0.05)
        return time.monotonic() - began_s

    def change_password(self, password: str) -> None:
        self._configure("--user", _USER, f"SCRAM-SHA-512=[password={password}]")
        for file in (self._file, self._file.with_name("librdkafka.properties")):
            file.write_text(file.read_text().replace(self._password, password))
        self._password = password
        for producer in self._run.producers:
            producer.log_in_as(_USER, password)
        self._run.follower.log_in_as(_USER, password)

    def change_password_of_brokers(self, password: str) -> None:
        """Connections that are open go on; new ones wait for the new log-in of their broker."""
        self._configure("--user", BROKER, f"SCRAM-SHA-512=[password={password}]")
        line = f'{_MODULE} required username="{BROKER}" password="{password}";'
        for seat in self._cluster.seats.values():
            self._configure("--broker", str(seat.id), f"{_LOG_IN}=[{line}]")

    def _configure(self, kind: str, name: str, change: str) -> None:
        self._tool(
            *("configs", "--alter", kind, name, "--command-config", str(self._file)),
            *("--bootstrap-server", self._cluster.bootstrap, "--add-config", change),
        )

    def first_password_is_refused(self) -> bool:
        with Admin(self._first) as admin:
            try:
                admin.list_topics()
            except AuthenticationFailed:
                return True
        return False

    def _tool(self, *words: str) -> None:
        done = subprocess.run(
            [odradek(), *words], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr


def _certificate(seat: Seat) -> str:
    return ssl.get_server_certificate((seat.host, seat.port), timeout=10)


def rotate(directory: Path, rounds: int) -> tuple[ChaosRun, list[str]]:
    """Returns the run, and everything that was wrong."""
    settings = [f"odradek.ssl.reload.interval.ms={_RELOAD_MS}"]
    with (
        ChaosCluster(directory / "data", secured=True, overrides=settings) as cluster,
        # The transactional producer is made anew after an error, so it cannot be told a password.
        ChaosRun(cluster, partitions=3, transactions=False) as run,
    ):
        rotation = Rotation(cluster, run)
        seats = list(cluster.seats.values())
        for number in range(rounds):
            loaded_s = rotation.renew_certificates()
            rotation.change_password(f"password-{number}")
            rotation.change_password_of_brokers(f"between-{number}")
            cost = run.suffer("rotation", seats[number % len(seats)], stop_and_restart)
            print(f"certificates in use after {loaded_s:.2f} s; {cost}", flush=True)
        found = run.judge()
        failed = sum(len(producer.failures) for producer in run.producers)
        print(f"{rounds} rotations of certificates and a password, {failed} failed sends")
        if not rotation.first_password_is_refused():
            found.append("the first password is still accepted")
        return run, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="odradek-rotation-"))
    run, found = rotate(directory, options.rounds)
    return report(directory, run, found)


if __name__ == "__main__":
    sys.exit(main())
