"""Kafka Connect's transforms and predicates beside ours: the same records, the same configurations.

    python -m tests.conformance.connect_transforms          all of them, some ten thousand
    python -m tests.conformance.connect_transforms Cast     those of one class

Apache's classes run in a JVM (`tests/java/TransformPeer.java`) on records that its JsonConverter
reads, and what it writes of the results is compared with what ours writes: byte by byte with
schemas, and without schemas as JSON, because Java's maps have no order. Where Apache fails, ours
must fail too.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from benchmarks.apache_kafka import (
    KAFKA_VERSION,
    SHORT_TOOL_JVM_FLAGS,
    Artifact,
    install_jars,
    java_program,
    javac_program,
)
from odradek.connect import plugins
from odradek.connect.converters.json_converter import JsonConverter
from odradek.connect.data.schemas import Schema
from odradek.connect.errors import ConnectError
from odradek.connect.records import Header, Record, SinkRecord, SourceRecord
from odradek.javatext.numbers import in_32_bits
from tests.conformance.connect_transform_cases import (
    PREDICATES,
    Config,
    Given,
    configurations,
    records,
)

_SHOWN: Final = 600
_SOURCE: Final = Path(__file__).resolve().parent.parent / "java" / "TransformPeer.java"


class Peer:
    """Apache's transforms in a process of their own. Raises `ToolMissing` without Java."""

    def __init__(self) -> None:
        javac_program()
        artifacts = [
            Artifact("org.apache.kafka", name, KAFKA_VERSION)
            for name in ("connect-transforms", "connect-json")
        ]
        libraries = install_jars(f"connect-transforms-{KAFKA_VERSION}", artifacts)
        self._process = subprocess.Popen(
            [java_program(), *SHORT_TOOL_JVM_FLAGS, "-cp", f"{libraries}/*", str(_SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def results(self, name: str, config: Config, records: Sequence[Given]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {
            "class": name,
            "config": dict(config),
            "records": [record._asdict() for record in records],
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


_CONVERTERS: Final = {
    has_schemas: JsonConverter(has_schemas=has_schemas, replaces_null=False)
    for has_schemas in (True, False)
}


def our_results(name: str, config: Config, records: Sequence[Given]) -> Any:
    """Does with our classes what the peer does with Apache's."""
    is_predicate = name.startswith(PREDICATES)
    try:
        plugin = (
            plugins.make_predicate(name, config)
            if is_predicate
            else plugins.make_transform(name, config)
        )
    except ConnectError as error:
        return {"refused": str(error)}
    return [_result(plugin, given, is_predicate=is_predicate) for given in records]


def _result(plugin: Any, given: Given, *, is_predicate: bool) -> dict[str, Any]:
    converter = _CONVERTERS[given.schemas]

    def text(schema: Schema | None, value: Any) -> str | None:
        data = converter.from_connect(given.topic, schema, value)
        return None if data is None else data.decode("utf-8", "surrogatepass")

    try:
        record = _record(given, converter)
        if is_predicate:
            return {"selected": plugin.test(record)}
        changed: Record | None = plugin.apply(record)
        if changed is None:
            return {"dropped": True}
        return {
            "topic": changed.topic,
            "partition": changed.partition,
            "timestamp": changed.timestamp_ms,
            "key": text(changed.key_schema, changed.key),
            "value": text(changed.value_schema, changed.value),
            "headers": [[header.name, _header_text(header)] for header in changed.headers],
        }
    except ConnectError as error:
        return {"error": str(error)}


def _header_text(header: Header) -> str | None:
    data = _CONVERTERS[True].from_connect("", header.schema, header.value)
    return None if data is None else data.decode("utf-8", "surrogatepass")


def _record(given: Given, converter: JsonConverter) -> Record:
    def read(text: str | None, of: JsonConverter) -> Any:
        return of.to_connect(given.topic, None if text is None else text.encode())

    key, value = read(given.key, converter), read(given.value, converter)
    headers = tuple(Header(name, *read(text, _CONVERTERS[True])) for name, text in given.headers)
    common: dict[str, Any] = {
        "key": key.value, "value": value.value, "key_schema": key.schema,
        "value_schema": value.schema, "partition": given.partition,
        "timestamp_ms": given.timestamp, "headers": headers,
    }  # fmt: skip
    if given.offset is None:
        return SourceRecord(given.topic, **common)
    return SinkRecord(given.topic, **common, offset=given.offset, original_topic=given.topic)


class Difference(NamedTuple):
    name: str
    config: Config
    record: str
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        theirs, ours = self.theirs, self.ours
        if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
            theirs, ours = (
                {name: part for name, part in one.items() if part != other[name]}
                for one, other in ((theirs, ours), (ours, theirs))
            )
        return (
            f"{self.name.rpartition('.')[2]} {dict(self.config)} on {self.record}\n"
            f"  Apache: {str(theirs)[:_SHOWN]}\n  ours:   {str(ours)[:_SHOWN]}"
        )


def differences(
    peer: Peer, cases: Sequence[tuple[str, Config, Sequence[Given]]]
) -> Iterator[Difference]:
    for name, config, chosen in cases:
        theirs = peer.results(name, config, chosen)
        ours = our_results(name, config, chosen)
        if isinstance(theirs, dict) or isinstance(ours, dict):
            is_early = isinstance(ours, dict) and any(one in name for one in _REFUSED_EARLIER)
            if type(theirs) is not type(ours) and not is_early:
                yield Difference(name, config, "any record", theirs, ours)
            continue
        for given, expected, found in zip(chosen, theirs, ours, strict=True):
            if not _is_same(name, given, expected, found):
                yield Difference(name, config, given.name, expected, found)


# A group that the pattern does not have, and letters that are no part of a time, are refused before
# there is a record.
_REFUSED_EARLIER: Final = ("RegexRouter", "TimestampRouter", "TimestampConverter")
# Where Apache's transforms fail, or make a record that no converter can write, and ours do what
# they are for: the class, and a part of Apache's error.
_BETTER: Final = (
    ("Cast", "Invalid type for D"),
    ("Cast", "Invalid type for T"),
    ("MaskField", "found: null"),  # tombstones
    ("MaskField", "Cannot mask value of type: class [B"),
    ("MaskField", "Decimal value has mismatching scale"),
    ("SetSchemaMetadata", "Cannot list fields on non-struct type"),
    ("TimestampConverter", "Java class class java.util.Date does not have"),  # without a schema
)


def _is_same(name: str, given: Given, expected: Any, found: Any) -> bool:
    if "error" in expected or "error" in found:
        is_better = any(
            one in name and reason in expected.get("error", "") for one, reason in _BETTER
        )
        # Python's times end with the year 9999.
        is_beyond = "beyond the years" in found.get("error", "")
        return bool(is_better or is_beyond or ("error" in expected) is ("error" in found))
    if expected == found or given.name.startswith("map"):
        return True
    return bool(_plain(expected) == _plain(found))


def _plain(result: Any) -> Any:
    """Returns a result with JSON that was read, because Java's maps have no order."""
    texts = {
        name: None if result.get(name) is None else _parsed(result[name])
        for name in ("key", "value")
    }
    headers = [[name, text and _parsed(text)] for name, text in result.get("headers", ())]
    return {**result, **texts, "headers": headers}


def _parsed(text: str) -> Any:
    # Before Java 19, the text of a float had more digits than it needs.
    return json.loads(text, parse_float=_Float, parse_int=lambda digits: f"int {digits}")


class _Float:
    def __init__(self, text: str) -> None:
        self._number = float(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Float) and (
            self._number == other._number or in_32_bits(self._number) == in_32_bits(other._number)
        )

    __hash__ = None  # type: ignore[assignment]


def cases(*, only: str | None = None, share: float = 1.0) -> list[tuple[str, Config, list[Given]]]:
    """Returns the cases; with a `share`, so many of the records of each configuration."""
    chosen = random.Random(7)
    everything = records()
    found = []
    for name, config in configurations():
        if only is not None and only not in name:
            continue
        given = everything
        if share < 1.0:
            given = [record for record in everything if chosen.random() < share]
        found.append((name, config, given))
    return found


def main() -> int:
    only = sys.argv[1] if len(sys.argv) > 1 else None
    chosen = cases(only=only)
    with Peer() as peer:
        count = 0
        for difference in differences(peer, chosen):
            count += 1
            print(difference)
    total = sum(len(given) for _, _, given in chosen)
    print(f"{count} differences in {total} results of {len(chosen)} configurations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
