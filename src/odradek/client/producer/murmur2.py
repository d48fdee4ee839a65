"""Kafka's murmur2: the hash that spreads keys over partitions.

Every client that hashes the same key with it chooses the same partition, so the bits matter:
the result and the seed are those of Apache Kafka's Java client.
"""

from struct import unpack_from

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Returns the hash as an unsigned 32-bit number."""
    length = len(data)
    words = length >> 2
    result = _SEED ^ length
    for word in unpack_from(f"<{words}I", data):
        mixed = word * _MULTIPLIER & _MASK
        mixed = (mixed ^ mixed >> 24) * _MULTIPLIER & _MASK
        result = (result * _MULTIPLIER & _MASK) ^ mixed
    if tail := data[words << 2 :]:
        result = (result ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    result = (result ^ result >> 13) * _MULTIPLIER & _MASK
    return result ^ result >> 15
