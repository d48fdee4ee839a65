"""Which formats a data directory has: the version of everything in it that has one.

A version that rises, a file or a key that is new, is a change that an earlier version of Odradek
may not understand. `test_upgrade.py` compares what this version writes with what an earlier one
wrote, and with the table in docs/upgrade.md.
"""

import json
import re
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

_LENGTH_AT, _MAGIC_AT, _BATCH_HEAD = 8, 16, 12
_TRANSACTION_ENTRY = 34


def formats(data: Path) -> dict[str, str]:
    """Returns what has a format in a data directory, by its name in docs/upgrade.md."""
    found: dict[str, set[str]] = {}
    for path in sorted(data.rglob("*")):
        if path.is_file():
            for name, version in _of_file(path):
                found.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}


def _of_file(path: Path) -> Iterator[tuple[str, str]]:
    if path.suffix == ".log" and path.stem.isdigit():
        yield from (("`.log`: record batches", str(magic)) for magic in _magics(path.read_bytes()))
    elif path.suffix == ".snapshot":
        yield "`.snapshot`", str(struct.unpack_from(">h", path.read_bytes())[0])
    elif path.suffix == ".txnindex" and path.stat().st_size:
        assert path.stat().st_size % _TRANSACTION_ENTRY == 0
        yield "`.txnindex`", str(struct.unpack_from(">h", path.read_bytes())[0])
    elif path.name.endswith("checkpoint"):
        yield f"`{path.name}`", path.read_text().split("\n", 1)[0]
    elif path.name in {"meta.properties", "partition.metadata"}:
        separator = "=" if path.name == "meta.properties" else ":"
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        fields = dict(line.split(separator, 1) for line in lines)
        yield f"`{path.name}`", f"{fields['version'].strip()} ({_keys(fields)})"
    elif path.name == ".kafka_cleanshutdown":
        fields = json.loads(path.read_text())
        yield f"`{path.name}`", f"{fields['version']} ({_keys(fields)})"
    elif path.name == "metadata.sqlite":
        yield from _of_store(path)


def _magics(log: bytes) -> Iterator[int]:
    position = 0
    while position + _MAGIC_AT < len(log):
        yield log[position + _MAGIC_AT]
        (length,) = struct.unpack_from(">i", log, position + _LENGTH_AT)
        position += _BATCH_HEAD + length


def _of_store(path: Path) -> Iterator[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as database:
        ((version,),) = database.execute("select format from store").fetchall()
        yield "`metadata.sqlite`", str(version)
        for node, value in database.execute("select path, value from node"):
            if not value.startswith(b"{"):
                continue
            fields = json.loads(value)
            if "version" in fields:
                yield f"node `{_pattern(node)}`", f"{fields['version']} ({_keys(fields)})"


def _pattern(node: str) -> str:
    """Returns the path of a node with `*` for the names of topics and the numbers of brokers."""
    node = re.sub(r"(?<=/)\d+(?=/|$)", "*", node)
    return re.sub(r"(?<=/topics/)[^/]+", "*", node)


def _keys(fields: Mapping[str, object]) -> str:
    return ", ".join(sorted(key for key in fields if key != "version")) or "nothing else"
