"""A Spark cluster of its own: a master and two workers, real processes on loopback.

Each worker has an address of its own (all of 127.0.0.0/8 is loopback on Linux), because Spark does
not start a second attempt of a task on the host where the first one runs.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from benchmarks.broker_process import free_ports

_ROOT = Path(__file__).parents[2]
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 20.0
_MASTER = "127.0.0.1"
WORKERS = ("127.0.0.2", "127.0.0.3")
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
    "spark.cores.max": str(len(WORKERS)),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.ui.enabled": "false",
}


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """The address of a cluster that ends with the context."""
    (port,) = free_ports(1)
    url = f"spark://{_MASTER}:{port}"
    with ExitStack() as stack:

        def start(kind: str, host: str, *words: str) -> "subprocess.Popen[bytes]":
            words = (f"{kind}.{kind.capitalize()}", "--host", host, "--webui-port", "0", *words)
            return stack.enter_context(_running(words, host, directory / host))

        master = start("master", _MASTER, "--port", str(port))
        _wait_until_said("I have been elected leader", master, directory / _MASTER)
        # A core more than a program takes: the next one need not wait for the last one's end.
        room = ("--cores", "2", "--memory", "2g")
        workers = {
            host: start("worker", host, *room, "--work-dir", str(directory / host), url)
            for host in WORKERS
        }
        # A program that finds one worker only would have all its tasks there.
        for host, worker in workers.items():
            _wait_until_said("Successfully registered with master", worker, directory / host)
        yield url


@contextmanager
def _running(
    command: Sequence[str], host: str, directory: Path
) -> "Iterator[subprocess.Popen[bytes]]":
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


def _wait_until_said(words: str, process: "subprocess.Popen[bytes]", directory: Path) -> None:
    end_s = time.monotonic() + _START_TIMEOUT_S
    while words not in (said := (directory / "log").read_text(errors="replace")):
        if time.monotonic() > end_s or process.poll() is not None:
            raise RuntimeError(f"Spark's process in {directory} did not start: {said[-2000:]}")
        time.sleep(0.05)
