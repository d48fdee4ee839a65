"""`odradek get`: what its flags mean."""

import argparse

import pytest

from odradek.cli.records import get
from odradek.tools.failures import UsageError


@pytest.mark.parametrize(
    ("text", "serializer", "expected"),
    [
        ("4711", "StringSerializer", b"4711"),
        ("größe", "org.apache.kafka.common.serialization.StringSerializer", "größe".encode()),
        ("4711", "LongSerializer", b"\0\0\0\0\0\0\x12\x67"),
        ("-1", "IntegerSerializer", b"\xff" * 4),
        ("00ff", "HexSerializer", b"\0\xff"),
        ("", "StringSerializer", b""),
    ],
)
def test_keys_are_those_of_the_serializer(text: str, serializer: str, expected: bytes) -> None:
    assert get.key_bytes(text, serializer) == expected


@pytest.mark.parametrize(
    ("text", "serializer", "reason"),
    [
        ("x", "LongSerializer", "'x' is not an integer of 8 bytes"),
        ("70000", "ShortSerializer", "'70000' is not an integer of 2 bytes"),
        ("zz", "HexSerializer", "'zz' is not hexadecimal"),
    ],
)
def test_a_key_that_does_not_fit_is_refused(text: str, serializer: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        get.key_bytes(text, serializer)


def test_an_unknown_serializer_is_refused() -> None:
    with pytest.raises(UsageError, match="there are StringSerializer"):
        get.key_bytes("a", "AvroSerializer")


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--partition", "1", "--all-partitions"], "not both"),
        (["--scan", "--repeat", "3"], "--repeat"),
        (["--json", "--formatter-property", "print.key=true"], "--json and --formatter-property"),
        (["--json", "--key-deserializer", "LongDeserializer"], "--json and --key-deserializer"),
        (["--json", "--value-deserializer", "LongDeserializer"], "--json and --value-deserializer"),
    ],
)
def test_flags_that_contradict_are_refused(flags: list[str], reason: str) -> None:
    parser = argparse.ArgumentParser()
    get.add_arguments(parser)
    arguments = parser.parse_args(["--topic", "t", "--key", "k", *flags])
    with pytest.raises(UsageError, match=reason):
        get.check_arguments(arguments)
