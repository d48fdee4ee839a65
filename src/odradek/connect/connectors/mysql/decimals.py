"""DECIMAL as the databases store it: nine digits in four bytes, and fewer in as few as they need.

The first bit is turned around, and all bits of a negative number are, so that stored numbers are in
the order of their bytes.
"""

from collections.abc import Callable
from decimal import Context, Decimal
from typing import Final

_EXACT: Final = Context(prec=80)
_BYTES_OF_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def decimal_reader(precision: int, scale: int) -> Callable[[bytes, int], tuple[Decimal, int]]:
    """Returns a function that reads a number, and says where it ends."""
    whole_words, first_digits = divmod(precision - scale, 9)
    scale_words, last_digits = divmod(scale, 9)
    digits = [first_digits] + [9] * (whole_words + scale_words) + [last_digits]
    groups = [(8 * _BYTES_OF_DIGITS[count], 10**count) for count in digits if count]
    bits = sum(width for width, _ in groups)
    size = bits // 8
    top, everything = 1 << (bits - 1), (1 << bits) - 1
    layout = []
    left = bits
    for width, factor in groups:
        left -= width
        layout.append((left, (1 << width) - 1, factor))

    def read(data: bytes, at: int) -> tuple[Decimal, int]:
        end = at + size
        packed = int.from_bytes(data[at:end], "big")
        is_negative = not packed & top
        packed = (packed ^ everything if is_negative else packed) & ~top
        unscaled = 0
        for shift, mask, factor in layout:
            unscaled = unscaled * factor + (packed >> shift & mask)
        value = Decimal(-unscaled if is_negative else unscaled)
        return value.scaleb(-scale, _EXACT), end

    return read
