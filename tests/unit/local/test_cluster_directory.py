"""The brokers of a cluster's brokers on one machine."""

import os
import socket
from pathlib import Path

import pytest

from odradek.config.properties import parse_properties
from odradek.local.cluster_directory import (
    BrokerDirectory,
    broker_directories,
    brokers_in,
    chosen_ports,
    laptop_settings,
    make_cluster_directory,
    read_pid,
    remove_pid,
    require_cluster_directory,
    require_lone_directory,
    running_broker,
    with_settings,
    write_pid,
    write_settings,
)
from odradek.tools.failures import CommandFailed, UsageError
from odradek.world.disk import OsDisk

DISK = OsDisk()


class TestSettings:
    def test_one_line_changes_and_the_others_stay(self) -> None:
        text = "# mine\nlog.dirs=/a\n\nretention = 5\n"
        assert with_settings(text, {"log.dirs": "/b", "node.id": "2"}) == (
            "# mine\nlog.dirs=/b\n\nretention = 5\nnode.id=2\n"
        )

    def test_values_come_back_as_they_were(self) -> None:
        value = "a\\b = c\nd"
        assert parse_properties(with_settings("", {"x": value})) == {"x": value}

    def test_what_a_person_wrote_survives_the_next_start(self, tmp_path: Path) -> None:
        broker = BrokerDirectory(2, str(tmp_path), 9093)
        write_settings(DISK, broker, {"node.id": "2"}, {"num.partitions": "1"})
        file = Path(broker.properties_path)
        file.write_text(file.read_text().replace("num.partitions=1", "num.partitions=7"))
        write_settings(DISK, broker, {"node.id": "2", "x": "y"}, {"num.partitions": "1"})
        properties = parse_properties(file.read_text())
        assert properties == {"node.id": "2", "num.partitions": "7", "x": "y"}

    @pytest.mark.parametrize(("brokers", "copies", "durable"), [(2, 2, 1), (3, 3, 2), (5, 3, 2)])
    def test_copies_for_as_many_brokers_as_there_are(
        self, brokers: int, copies: int, durable: int
    ) -> None:
        settings = laptop_settings(brokers)
        assert settings["default.replication.factor"] == str(copies)
        assert settings["offsets.topic.replication.factor"] == str(copies)
        assert settings["min.insync.replicas"] == str(durable)


class TestDirectories:
    def test_broker_by_broker(self) -> None:
        brokers = broker_directories("/d/", [5, 6])
        assert brokers == [
            BrokerDirectory(1, "/d/broker-1", 5),
            BrokerDirectory(2, "/d/broker-2", 6),
        ]

    def test_a_cluster_is_not_started_as_one_broker_nor_the_other_way_round(
        self, tmp_path: Path
    ) -> None:
        cluster, lone = tmp_path / "cluster", tmp_path / "lone"
        lone.mkdir()
        (lone / "meta.properties").touch()
        with pytest.raises(CommandFailed, match="single broker"):
            require_cluster_directory(DISK, str(lone), 3)
        require_cluster_directory(DISK, str(cluster), 3)
        make_cluster_directory(DISK, str(cluster), 3)
        require_lone_directory(DISK, str(cluster))  # nothing was started there yet
        for number in (1, 2, 3):
            (cluster / f"broker-{number}" / "server.properties").touch()
        with pytest.raises(CommandFailed, match="--brokers 3"):
            require_lone_directory(DISK, str(cluster))
        assert brokers_in(DISK, str(cluster)) == [1, 2, 3]
        assert brokers_in(DISK, str(tmp_path / "none")) == []


class TestPorts:
    def test_free_ones_are_all_different(self) -> None:
        assert len(set(chosen_ports("127.0.0.1", 0, 5))) == 5

    def test_a_busy_one_is_named(self) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            with pytest.raises(CommandFailed, match=f"stop what uses port {port}"):
                chosen_ports("127.0.0.1", port, 1)

    def test_ports_end(self) -> None:
        with pytest.raises(UsageError, match="would need port 65537"):
            chosen_ports("127.0.0.1", 65535, 3)

    def test_a_host_that_is_not_ours(self) -> None:
        with pytest.raises(CommandFailed, match=r"192\.0\.2\.1"):
            chosen_ports("192.0.2.1", 0, 1)


class TestProcesses:
    def test_a_number_alone_is_no_broker(self, tmp_path: Path) -> None:
        directory = str(tmp_path)
        assert running_broker(DISK, directory) is None
        write_pid(DISK, f"{directory}/broker.pid", os.getpid())
        assert running_broker(DISK, directory) is None, "nobody holds the lock"
        lock = DISK.lock(f"{directory}/.lock")
        assert running_broker(DISK, directory) == os.getpid()
        lock.release()

    def test_only_ones_own_number_is_removed(self, tmp_path: Path) -> None:
        path = str(tmp_path / "broker.pid")
        write_pid(DISK, path, 123456)
        write_pid(DISK, path, 7)
        assert read_pid(DISK, path) == 7, "shorter numbers leave nothing behind"
        remove_pid(DISK, path, 8)
        assert read_pid(DISK, path) == 7
        remove_pid(DISK, path, 7)
        assert read_pid(DISK, path) is None
