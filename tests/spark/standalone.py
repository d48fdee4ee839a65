"""A Spark cluster of its own: a master and two workers, real processes on loopback.

Each worker has an address of its own (all of 127.0.0.0/8 is loopback on Linux), because Spark does
not start a second attempt of a task on the host where the first one runs.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from benchmarks.broker_process import free_ports

_ROOT = Path(__file__).parents[2]
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 20.0
_MASTER = "127.0.0.1"
_WORKERS = ("127.0.0.2", "127.0.0.3")
# These processes live for a minute: compile little.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What a program needs to use it: it stays on loopback, and begins when both workers are there.
ENVIRONMENT = {"SPARK_LOCAL_IP": _MASTER}
SETTINGS = {
    "spark.driver.host": _MASTER,
    "spark.driver.bindAddress": _MASTER,
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.cores.max": str(len(_WORKERS)),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.ui.enabled": "false",
}


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """The address of a cluster that ends with the context."""
    (port,) = free_ports(1)
    url = f"spark://{_MASTER}:{port}"
    with ExitStack() as stack:
        master = ["master.Master", "--host", _MASTER, "--port", str(port), "--webui-port", "0"]
        process = stack.enter_context(_running(master, _MASTER, directory / "master"))
        _wait_for(port, process, directory / "master")
        for host in _WORKERS:
            here = directory / f"worker-{host}"
            # A core more than a program takes: the next one need not wait for the last one's end.
            words = ["--host", host, "--cores", "2", "--memory", "2g", "--webui-port", "0"]
            command = ["worker.Worker", *words, "--work-dir", str(here), url]
            stack.enter_context(_running(command, host, here))
        yield url


@contextmanager
def _running(command: list[str], host: str, directory: Path) -> "Iterator[subprocess.Popen[bytes]]":
    directory.mkdir(parents=True)
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(directory),
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
        "PYSPARK_PYTHON": sys.executable,
        # What runs on workers imports the tests' own classes.
        "PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_ROOT)))),
    }
    name, *arguments = command
    words = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(port: int, process: "subprocess.Popen[bytes]", directory: Path) -> None:
    end_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < end_s and process.poll() is None:
        try:
            socket.create_connection((_MASTER, port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    said = (directory / "log").read_text(errors="replace")[-2000:]
    raise RuntimeError(f"Spark's master did not start: {said}")
