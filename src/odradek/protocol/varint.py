"""Variable-length integers inside records: seven bits a byte, low bits first, zigzagged.

Zigzag puts the sign into the lowest bit (0, -1, 1, -2 become 0, 1, 2, 3), so lengths, which
are hardly ever negative, are even on the wire.
"""

# The varints of 0 to 8191, which is every one of one or two bytes that is not negative.
SMALL_VARINTS = [
    bytes((number << 1,)) if number < 64 else bytes((number << 1 & 127 | 128, number >> 6))
    for number in range(8192)
]


def encode_varint(number: int) -> bytes:
    if 0 <= number < 8192:
        return SMALL_VARINTS[number]
    bits = number << 1 if number >= 0 else ~(number << 1)
    encoded = bytearray()
    while bits > 127:
        encoded.append(bits & 127 | 128)
        bits >>= 7
    encoded.append(bits)
    return bytes(encoded)


def long_varint(
    data: bytes, position: int, first: int | None = None, width: int = 32
) -> tuple[int, int]:
    """The integer, still zigzagged, and the position behind it.

    `first` is the first byte if the caller has read it already. `IndexError` where the data
    end too early, `OverflowError` where the integer is wider than `width` bits.
    """
    if first is None:
        first = data[position]
        position += 1
    bits, shift = first & 127, 7
    byte = first
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
