"""A schema registry in a separate process, for as long as a test needs it.

It keeps its schemas in the topic `_schemas` of a cluster of tests, and ends with its `with` block.
"""

import os
import signal
import subprocess
import sys
import tempfile
from typing import Self

from odradek.testing.cluster import Cluster, ClusterFailed

_READY = "the schema registry is ready at "
_STOP_TIMEOUT_S = 20.0


class Registry:
    """A registry on a free port of 127.0.0.1. It works in `with`; `url` is its address."""

    def __init__(self, cluster: Cluster) -> None:
        self._bootstrap = cluster.bootstrap
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="odradek-registry-")
        path = os.path.join(self._directory.name, "registry.properties")
        settings = (
            "listeners=http://127.0.0.1:0",
            f"kafkastore.bootstrap.servers={self._bootstrap}",
            "kafkastore.topic.replication.factor=1",
            "odradek.access.log=false",
        )
        with open(path, "w") as file:
            file.write("\n".join(settings))
        command = [sys.executable, "-m", "odradek.cli", "schema-registry-start", path]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        said = []
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said.append(line)
            if line.startswith(_READY):
                self.url = line.removeprefix(_READY).split()[0]
                return self
        self.__exit__()
        raise ClusterFailed("the schema registry did not start: " + "".join(said))

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
            try:
                self._process.communicate(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
        self._directory.cleanup()
