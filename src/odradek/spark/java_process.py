"""Starts the Java process of a session with quiet logging.

pyspark starts Java when the first `SparkContext` is made. Here Java is started before that, so that
its output goes through `JavaOutput`. Nothing is changed if pyspark would not start Java by itself:
under `spark-submit`, with Spark Connect, or if Java runs already.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from subprocess import Popen
from typing import Any, Final

from pyspark import SparkConf, SparkContext, java_gateway

from odradek.spark.java_output import JavaOutput

# Log lines of Spark's that only repeat an exception which the driver gets anyway are turned off.
LOGGING: Final = os.path.join(os.path.dirname(__file__), "log4j2.properties")
_LOGGING_VARIABLE: Final = "LOG4J_CONFIGURATION_FILE"
_OWN_LOGGING: Final = ("log4j2.properties", "log4j2.xml", "log4j2.yaml", "log4j2.json")

# Of the Java process that this program has started.
output: Final = JavaOutput()


def start_java(conf: Mapping[str, str]) -> None:
    """Starts Java for the first session of this program, with the settings of that session."""
    output.unmute()
    if os.environ.get("ODRADEK_DEBUG") or not _is_started_by_pyspark():
        return
    settings = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        settings.set(key, value)
    with output.pipe() as writing, logging_file(), killed_if_interrupted():
        gateway = java_gateway.launch_gateway(settings, popen_kwargs={"stderr": writing})
    SparkContext._ensure_initialized(gateway=gateway, conf=settings)


def _is_started_by_pyspark() -> bool:
    return (
        SparkContext._gateway is None
        and "PYSPARK_GATEWAY_PORT" not in os.environ
        and "SPARK_REMOTE" not in os.environ
    )


@contextmanager
def killed_if_interrupted() -> Iterator[None]:
    """Kills Java if its start is interrupted, as by Ctrl-C. pyspark would leave a process that does
    not end: it removes the directory where Java was to write its port, and Java fails to."""
    started: list[Popen[bytes]] = []

    def start(*args: Any, **kwargs: Any) -> "Popen[bytes]":
        started.append(Popen(*args, **kwargs))  # noqa: S603 - what pyspark starts anyway
        return started[-1]

    # pyspark tells nobody which process it has started.
    java_gateway.Popen = start
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise
    finally:
        java_gateway.Popen = Popen


@contextmanager
def logging_file() -> Iterator[None]:
    """Names our file of log levels to Java, unless the user has one."""
    if _LOGGING_VARIABLE in os.environ or _has_own_logging():
        yield
        return
    os.environ[_LOGGING_VARIABLE] = LOGGING
    try:
        yield
    finally:
        del os.environ[_LOGGING_VARIABLE]


def _has_own_logging() -> bool:
    home = os.environ.get("SPARK_HOME")
    directory = os.environ.get("SPARK_CONF_DIR") or (os.path.join(home, "conf") if home else None)
    return directory is not None and any(
        os.path.exists(os.path.join(directory, name)) for name in _OWN_LOGGING
    )
