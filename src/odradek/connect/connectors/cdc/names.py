"""Names that Avro allows: `schema.name.adjustment.mode` and `field.name.adjustment.mode`."""

import re
from functools import lru_cache
from typing import Final

_NOT_IN_FIELDS: Final = re.compile(r"[^A-Za-z0-9_]")
_NOT_IN_SCHEMAS: Final = re.compile(r"[^A-Za-z0-9_.]")


@lru_cache(10_000)
def adjusted_name(name: str, mode: str, *, is_field: bool = False) -> str:
    """Returns a name with what Avro does not allow replaced, by `*.name.adjustment.mode`. Names of
    schemas may have points, those of fields may not."""
    if mode == "none":
        return name
    kept = _NOT_IN_FIELDS if is_field else _NOT_IN_SCHEMAS
    if mode == "avro_unicode":
        escaped = name.replace("_", "_u005f")
        adjusted = kept.sub(lambda match: f"_u{ord(match[0]):04x}", escaped)
    else:
        adjusted = kept.sub("_", name)
    return f"_{adjusted}" if adjusted[:1].isdigit() else adjusted
