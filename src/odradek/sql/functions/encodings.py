"""Text that stands for bytes: hex, utf8, ascii, base64."""

import base64


def decoded(text: str, encoding: str) -> bytes:
    """Returns the bytes of a text. Raises `ValueError` for an unknown encoding or wrong text."""
    name = encoding.lower()
    if name == "hex":
        if text.lower().startswith("0x"):
            text = text[2:]
        elif text[:2].upper() == "X'" and text.endswith("'"):
            text = text[2:-1]
        return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")
    if name == "base64":
        return base64.b64decode(text, validate=True)
    if name in ("utf8", "ascii"):
        return text.encode("utf-8" if name == "utf8" else "ascii", "replace")
    raise _unknown(encoding)


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
