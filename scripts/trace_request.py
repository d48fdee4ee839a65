"""Prints which source files one request passes through in a broker, in the order of their calls.

    python scripts/trace_request.py produce     one record, acks=all, a single replica
    python scripts/trace_request.py fetch       a fetch that is answered at once

The broker runs in the main thread and in memory. The client runs in another thread, which
`sys.setprofile` does not record. Functions that the codec compiles have no file and are left out.
"""

import argparse
import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from odradek.client import Admin, Connection, NewTopic, Producer
from odradek.local.serving import serve, settings_from
from odradek.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

_SOURCE = str(Path(__file__).parents[1] / "src" / "odradek") + os.sep
_LAST_VERSION_WITH_TOPIC_NAMES = 12


class Recorder:
    """Records the first call into each source file while `is_on`."""

    def __init__(self) -> None:
        self.is_on = False
        self.files: dict[str, str] = {}

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if self.is_on and event == "call":
            code = frame.f_code
            if code.co_filename.startswith(_SOURCE):
                self.files.setdefault(code.co_filename.removeprefix(_SOURCE), code.co_qualname)


async def _drive(kind: str, bootstrap: str, recorder: Recorder) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics([NewTopic("traced", partitions=1, replication_factor=1)])
    async with Producer(bootstrap_servers=bootstrap, acks="all") as producer:
        # The first record opens connections and loads modules, so it is not recorded.
        await producer.send_and_wait("traced", b"first")
        recorder.is_on = kind == "produce"
        await producer.send_and_wait("traced", b"second")
        recorder.is_on = False
    if kind == "fetch":
        host, _, port = bootstrap.rpartition(":")
        connection = await Connection.open(host, int(port))
        for is_recorded in (False, True):
            recorder.is_on = is_recorded
            await connection.request(
                FetchRequest(
                    max_wait_ms=0,
                    topics=[
                        FetchTopic(
                            topic="traced",
                            partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)],
                        )
                    ],
                ),
                FetchResponse,
                max_version=_LAST_VERSION_WITH_TOPIC_NAMES,
            )
        recorder.is_on = False
        connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("produce", "fetch"))
    kind = parser.parse_args().kind
    recorder = Recorder()

    def client(bootstrap: str) -> None:
        try:
            asyncio.run(_drive(kind, bootstrap, recorder))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_ready(bootstrap: str) -> None:
        threading.Thread(target=client, args=(bootstrap,), name="client").start()

    listeners = {"listeners": "PLAINTEXT://127.0.0.1:0"}
    settings = settings_from(listeners, [], in_memory=True)
    sys.setprofile(recorder.profile)
    serve(settings, in_memory=True, on_ready=on_ready)
    sys.setprofile(None)
    for path, function in recorder.files.items():
        sys.stdout.write(f"{path:40} {function}\n")
    sys.stdout.write(f"{len(recorder.files)} files\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
