"""What the servers of an ensemble say, one by one and together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from odradek.cli.doctor.ensemble import Server, _ask, add_quorum, add_skews
from odradek.cli.doctor.findings import Findings


@asynccontextmanager
async def server(answer: bytes) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(4) == b"srvr"
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def test_a_server_is_asked_for_its_mode() -> None:
    async with server(b"Zookeeper version: 3.9.4\nMode: follower\nNode count: 5\n") as address:
        assert await _ask(address, None) == Server(address, "follower")
    async with server(b"This ZooKeeper instance is not currently serving requests\n") as address:
        asked = await _ask(address, None)
        assert asked.mode is None
        assert "want of a quorum" in asked.problem
    assert "refused" in (await _ask(address, None)).problem


ONE = Server("one:2181", "leader")
TWO = Server("two:2181", "follower")
THREE = Server("three:2181", "follower")
DOWN = Server("three:2181", None, "connection refused")


@pytest.mark.parametrize(
    ("servers", "grades", "words"),
    [
        ([ONE, TWO, THREE], ["ok"], "1 more may be lost"),
        ([Server("one:2181", "standalone")], ["ok"], "0 more may be lost"),
        ([ONE, TWO, DOWN], ["warning", "warning"], "if one more is lost, no leader"),
        ([ONE, DOWN, DOWN], ["warning"] * 3, "cannot be reached from here"),
        ([DOWN, DOWN], ["warning", "warning", "wrong"], "none of 2 servers serves"),
    ],
)
def test_the_quorum(servers: list[Server], grades: list[str], words: str) -> None:
    findings = Findings()
    add_quorum(findings, servers)
    assert [found.grade for found in findings.all] == grades
    assert words in findings.all[-1].text


def test_clocks_that_differ() -> None:
    findings = Findings()
    add_skews(findings, {"1": -3, "2": 900})
    add_skews(findings, {})
    add_skews(findings, {"1": 61_000, "2": -2_500})
    assert [found.grade for found in findings.all] == ["ok", "warning", "warning"]
    assert "broker 1 was 61.0 s ahead of ZooKeeper's" in findings.all[1].text
    assert "broker 2 was 2.5 s behind ZooKeeper's" in findings.all[2].text
