"""A real broker and its own logs: levels changed live, files that roll, disks that refuse."""

import re
import signal
import socket
import subprocess
from pathlib import Path

from tests.scenarios.test_cli_up import address, ask, first_line
from tests.scenarios.up_process import COMMAND, running

LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] [A-Z]+ .+ \(odradek(\.\w+)+\)")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.log*"))


def stop(process: "subprocess.Popen[str]") -> str:
    """What it said on standard error until its clean end."""
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said


def set_level(bootstrap: str, *change: str) -> None:
    ask(bootstrap, "configs", "--alter", "--broker-logger", "1", *change)


def test_from_start_to_stop_with_requests_in_between(tmp_path: Path) -> None:
    logs = tmp_path / "data"
    with running("up", "--port", "0", "--data", str(tmp_path / "data")) as process:
        bootstrap = address(first_line(process))
        assert names(logs) == ["controller.log", "server.log"]
        ask(bootstrap, "topics", "--create", "--topic", "t")
        assert not (logs / "request.log").exists()
        set_level(bootstrap, "--add-config", "kafka.request.logger=DEBUG")
        ask(bootstrap, "console-producer", "--topic", "t", stdin="a record\n")
        set_level(bootstrap, "--delete-config", "odradek.request")
        told = (logs / "request.log").read_text()
        assert " DEBUG api=Produce version=" in told
        ask(bootstrap, "console-producer", "--topic", "t", stdin="another\n")
        assert (logs / "request.log").read_text() == told
        stop(process)
    assert names(logs) == ["controller.log", "request.log", "server.log", "state-change.log"]
    for name in names(logs):
        lines = (logs / name).read_text().splitlines()
        assert lines
        assert all(LINE.fullmatch(line) for line in lines), lines
    assert " INFO topic t: created with partitions: 1, " in (logs / "controller.log").read_text()
    assert " INFO t-0: leads in epoch 0, " in (logs / "state-change.log").read_text()
    server = (logs / "server.log").read_text()
    moments = ["broker 1 starts: ", "is ready at ", "is DEBUG now", "1 stops", "1 has stopped"]
    assert sorted(map(server.index, moments)) == list(map(server.index, moments))


def test_the_place_may_be_chosen_and_files_roll(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(
        f"node.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/data\n"
        "odradek.logs.max.file.bytes=1024\nodradek.logs.kept.files=2\n"
    )
    logs = tmp_path / "elsewhere"
    with running("broker", str(settings), "--log-directory", str(logs)) as process:
        bootstrap = address(first_line(process))
        set_level(bootstrap, "--add-config", "odradek.request=DEBUG")
        for _ in range(5):
            ask(bootstrap, "topics", "--list")
        stop(process)
    rolled = [name for name in names(logs) if name.startswith("request.log")]
    assert rolled == ["request.log", "request.log.1", "request.log.2"]
    assert all((logs / name).stat().st_size <= 1024 for name in rolled)
    assert names(tmp_path / "data") == []


def test_a_disk_that_takes_nothing_does_not_stop_the_broker(tmp_path: Path) -> None:
    logs = tmp_path / "data"
    logs.mkdir()
    (logs / "server.log").symlink_to("/dev/full")
    with running("up", "--port", "0", "--data", str(tmp_path / "data")) as process:
        bootstrap = address(first_line(process))
        ask(bootstrap, "topics", "--create", "--topic", "t")
        ask(bootstrap, "console-producer", "--topic", "t", stdin="a record\n")
        said = stop(process)
    assert said.count("cannot write") == 1
    assert f"odradek: cannot write {logs}/server.log: No space left on device; the broker" in said
    assert " topic t: created" in (logs / "controller.log").read_text()


def test_removed_logs_come_back(tmp_path: Path) -> None:
    logs = tmp_path / "data"
    with running("up", "--port", "0", "--data", str(tmp_path / "data")) as process:
        bootstrap = address(first_line(process))
        for name in names(logs):
            (logs / name).unlink()
        # Files are looked for once a second: each try tells one more line.
        for number in range(200):
            ask(bootstrap, "topics", "--create", "--topic", f"t-{number}")
            if (logs / "controller.log").exists():
                break
        assert f" topic t-{number}: created" in (logs / "controller.log").read_text()
        stop(process)


def test_no_files_where_nobody_wants_them(tmp_path: Path) -> None:
    flags = ["--override", "odradek.logs.directory=none", "--log-level", "INFO"]
    with running("up", "--port", "0", "--data", str(tmp_path / "data"), *flags) as process:
        first_line(process)
        said = stop(process)
    assert names(tmp_path / "data") == []
    assert " INFO broker 1 starts: " in said


def test_a_failed_start_is_told_in_the_file_too(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = str(occupied.getsockname()[1])
        failed = subprocess.run(
            [*COMMAND, "up", "--port", port, "--data", str(tmp_path / "data")],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1
    told = (tmp_path / "data" / "server.log").read_text()
    assert " FATAL stopped: " in told


def test_brokers_of_a_cluster_have_logs_of_their_own(tmp_path: Path) -> None:
    with running("up", "--brokers", "2", "--port", "0", "--data", str(tmp_path)) as process:
        for _ in range(3):
            first_line(process)
        stop(process)
    for number in (1, 2):
        told = (tmp_path / f"broker-{number}" / "server.log").read_text()
        assert f" INFO broker {number} has stopped (odradek.server)" in told
        assert names(tmp_path / f"broker-{number}").count("server.log") == 1
