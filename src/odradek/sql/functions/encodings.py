"""Text that stands for bytes: hex, utf8, ascii, base64."""

import base64
import re


def decoded(text: str, encoding: str, *, is_lenient: bool = False) -> bytes:
    """Returns the bytes of a text. Raises `ValueError` for an unknown encoding or wrong text. Where
    it is lenient, other characters in base64 are skipped."""
    name = encoding.lower()
    if name == "hex":
        if len(text) % 2:
            raise ValueError(f"{text!r} has an odd number of hexadecimal digits")
        return bytes.fromhex(text)
    if name == "base64":
        if is_lenient:
            text = re.sub(r"[^A-Za-z0-9+/]", "", text.replace("-", "+").replace("_", "/"))
            text += "=" * (-len(text) % 4)
        return base64.b64decode(text, validate=True)
    if name in ("utf8", "ascii"):
        return text.encode("utf-8" if name == "utf8" else "ascii", "replace")
    raise _unknown(encoding)


def without_marks(text: str) -> str:
    """Returns hexadecimal digits without 0x before them or X'...' around them."""
    if text.startswith("0x"):
        return f"0{text[2:]}" if len(text) % 2 else text[2:]
    return text[2:-1] if text[:2].upper() == "X'" and text.endswith("'") else text


def encoded(data: bytes, encoding: str) -> str:
    name = encoding.lower()
    if name == "hex":
        return data.hex().upper()
    if name == "base64":
        return base64.b64encode(data).decode()
    if name in ("utf8", "ascii"):
        return data.decode("utf-8" if name == "utf8" else "ascii", "replace")
    raise _unknown(encoding)


def _unknown(encoding: str) -> ValueError:
    return ValueError(f"the encoding is one of hex, utf8, ascii, base64, not {encoding}")
