"""The vectors were computed with Apache Kafka's own class (kafka-clients 4.3.1)."""

import pytest

from odradek.client.producer.murmur2 import murmur2
from odradek.client.producer.partitioners import hash_of_key

BY_TEXT = {
    "": 275646681,
    "a": -1563381124,
    "ab": 316155434,
    "abc": 479470107,
    "abcd": -1323649548,
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "éÿ": -1748483581,
}
BY_LENGTH = {
    3: 51419311,
    7: -1488168820,
    128: 1741722413,
    129: 1996260412,
    130: 295160689,
    131: 1752894549,
    255: 1542706800,
    256: -1948347274,
}


@pytest.mark.parametrize(("text", "expected"), BY_TEXT.items())
def test_hashes_text_as_java_does(text: str, expected: int) -> None:
    assert murmur2(text.encode()) == expected & 0xFFFFFFFF


@pytest.mark.parametrize(("length", "expected"), BY_LENGTH.items())
def test_hashes_every_byte_value_and_tail_length_as_java_does(length: int, expected: int) -> None:
    assert murmur2(bytes(range(256))[:length]) == expected & 0xFFFFFFFF


def test_the_sign_bit_does_not_choose_a_partition() -> None:
    assert hash_of_key(b"a") == -1563381124 & 0x7FFFFFFF
