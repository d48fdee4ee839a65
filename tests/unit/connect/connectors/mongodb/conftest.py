"""mongo-java-server, which stands in for MongoDB: no server of MongoDB can be installed here.

It speaks MongoDB's protocol, and has a log of operations with tokens to resume from. Its change
streams are those of collections only, and lack descriptions of updates; `test_records.py` replays
documents of MongoDB's manual for those.
"""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.apache_kafka import Artifact, install_jars, java_program
from tests.needs import need

_PROGRAM = Path(__file__).parents[4] / "java" / "ChangeStreams.java"


@pytest.fixture(scope="session")
def mongodb() -> Iterator[str]:
    """A server; what it returns is the connection string."""
    java = need(java_program)
    artifact = Artifact("de.bwaldvogel", "mongo-java-server", "1.47.0")
    jars = need(lambda: install_jars("mongo-java-server", [artifact]))
    port = random.randrange(21000, 22000)
    process = subprocess.Popen(
        [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(_PROGRAM), str(port)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield f"mongodb://127.0.0.1:{port}/?directConnection=true"
    finally:
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()
