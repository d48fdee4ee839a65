"""Measures a schema registry: registrations and look-ups a second, CPU time, memory.

    python -m benchmarks.schema_registry http://127.0.0.1:8081 --process PID [--seconds N]

Run it for two registries on the same machine and broker, one after the other, and compare. Eight
connections ask as fast as they are answered. Each registration is a new schema under one of a
thousand subjects; look-ups ask for schemas by id, for the newest version of a subject, and for the
version that is a given schema. CPU time is that of the process, so other work on the machine
hardly changes it.
"""

import argparse
import asyncio
import json
import sys
import time
import uuid
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import psutil

CONNECTIONS: Final = 8
_SUBJECTS: Final = 1_000
_TYPE: Final = "application/vnd.schemaregistry.v1+json"

Request = tuple[str, str, object]
# So that schemas are new although the registry was measured before.
RUN: Final = uuid.uuid4().hex[:8]


def schema(number: int) -> str:
    fields: list[dict[str, object]] = [
        {"name": f"field_{index}", "type": "string", "default": ""} for index in range(10)
    ]
    fields.append({"name": f"n{RUN}_{number}", "type": "int", "default": 0})
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def registration(number: int) -> Request:
    path = f"/subjects/bench-{RUN}-{number % _SUBJECTS}-{number // _SUBJECTS}/versions"
    return "POST", path, {"schema": schema(number)}


class Client:
    """One connection, on which requests follow each other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, request: Request) -> bytes:
        method, path, body = request
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\naccept: {_TYPE}\r\n"
        if data:
            head += f"content-type: {_TYPE}\r\ncontent-length: {len(data)}\r\n"
        self._writer.write(head.encode() + b"\r\n" + data)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(one.split(":")[1]) for one in lines if one.startswith("content-length"))
        answer = await self._reader.readexactly(length)
        if lines[0].split()[1] != "200":
            raise RuntimeError(f"{method} {path}: {lines[0]} {answer.decode()}")
        return answer


class Measurement:
    def __init__(self, url: str, process: psutil.Process, seconds: float) -> None:
        self._url = urlsplit(url)
        self._process = process
        self._seconds = seconds

    async def rate(self, name: str, make: Callable[[int], Request], first: int = 0) -> int:
        """Prints how many requests a second are answered; returns how many there were."""
        clients = [
            Client(*await asyncio.open_connection(self._url.hostname, self._url.port))
            for _ in range(CONNECTIONS)
        ]
        done, times = first, []
        before, began_s = self._process.cpu_times(), time.monotonic()

        async def work(client: Client) -> None:
            nonlocal done
            while time.monotonic() - began_s < self._seconds:
                number, done = done, done + 1
                asked_s = time.monotonic()
                await client.ask(make(number))
                times.append(time.monotonic() - asked_s)

        await asyncio.gather(*map(work, clients))
        took_s = time.monotonic() - began_s
        after = self._process.cpu_times()
        cpu_s = after.user + after.system - before.user - before.system
        times.sort()
        print(
            f"{name:28} {len(times) / took_s:8,.0f} a second"
            f"  p50 {times[len(times) // 2] * 1000:6.1f} ms"
            f"  p99 {times[len(times) * 99 // 100] * 1000:6.1f} ms"
            f"  {cpu_s / len(times) * 1e6:7,.0f} us CPU each",
            flush=True,
        )
        return done

    async def run(self) -> None:
        print(f"memory before {self._process.memory_info().rss / 1e6:.0f} MB")
        count = await self.rate("registrations", registration)
        client = Client(*await asyncio.open_connection(self._url.hostname, self._url.port))
        ids = [
            json.loads(await client.ask(registration(number)))["id"]
            for number in range(min(count, 200))
        ]

        def by_id(number: int) -> Request:
            return "GET", f"/schemas/ids/{ids[number % len(ids)]}", None

        def latest(number: int) -> Request:
            return "GET", f"/subjects/bench-{RUN}-{number % len(ids)}-0/versions/latest", None

        def by_schema(number: int) -> Request:
            place = number % len(ids)
            return "POST", f"/subjects/bench-{RUN}-{place}-0", {"schema": schema(place)}

        await self.rate("schemas by id", by_id)
        await self.rate("newest version of a subject", latest)
        await self.rate("version of a schema", by_schema)
        await self.rate("registered again", lambda number: registration(number % len(ids)))
        print(f"memory after  {self._process.memory_info().rss / 1e6:.0f} MB, {count:,} schemas")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schema_registry")
    parser.add_argument("url")
    parser.add_argument("--process", type=int, required=True, help="the id of its process")
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    measurement = Measurement(given.url, psutil.Process(given.process), given.seconds)
    asyncio.run(measurement.run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
