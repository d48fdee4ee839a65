"""An HTTP service as a process of its own, with a properties file."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def service_started(
    command: str, file: Path, settings: Mapping[str, str], log: Path
) -> Iterator[str]:
    """Starts a service on a free port and yields its URL."""
    given = {"listeners": "http://127.0.0.1:0", **settings}
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "odradek.cli", command, str(file)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "is ready at" in line, log.read_text()
            yield line.split()[-1]
        finally:
            process.terminate()
            try:
                assert process.wait(20) == 0
            finally:
                process.kill()
                process.communicate()
