"""A real server with the protocol of S3 for tests: moto's, in a process of its own."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.broker_process import ToolMissing, free_ports

ACCESS_KEY, SECRET_KEY = "test", "test-secret"


class S3Server(NamedTuple):
    url: str

    def client(self, bucket: str) -> Any:
        """Returns a client of `obstore` for a bucket."""
        from obstore.store import S3Store

        return S3Store(
            bucket,
            endpoint=self.url,
            region="us-east-1",
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            client_options={"allow_http": True},
        )

    def make_bucket(self, bucket: str) -> None:
        import boto3

        boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        ).create_bucket(Bucket=bucket)

    def objects(self, bucket: str) -> dict[str, bytes]:
        import obstore

        client = self.client(bucket)
        names = [meta["path"] for page in obstore.list(client) for meta in page]
        return {name: bytes(obstore.get(client, name).bytes()) for name in sorted(names)}


def moto() -> str:
    try:
        import flask_cors  # noqa: F401
        import moto  # noqa: F401
    except ImportError:
        raise ToolMissing("moto's server is missing: pip install moto flask-cors") from None
    return sys.executable


@contextlib.contextmanager
def running_s3(python: str) -> Iterator[S3Server]:
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline_s = time.monotonic() + 60
        while True:
            assert process.poll() is None, "moto's server has ended"
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), 1),
            ):
                break
            assert time.monotonic() < deadline_s, "moto's server does not listen"
            time.sleep(0.02)
        yield S3Server(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(10)
