"""Values that can be keys of stores: arrays, maps and structs are neither hashable nor immutable.

`hashable` wraps them in subclasses that are; they are equal to plain lists and dicts, and every
function that reads lists and dicts reads them. Nothing writes to a key.
"""

from typing import Any


class _List(list[Any]):
    def __hash__(self) -> int:  # type: ignore[override]  # nobody changes a key
        return hash(tuple(self))


class _Dict(dict[Any, Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def hashable(value: Any) -> Any:
    """Returns a value that is equal and can be hashed."""
    if isinstance(value, tuple):
        return tuple(map(hashable, value))
    if isinstance(value, list):
        return _List(map(hashable, value))
    if isinstance(value, dict):
        return _Dict((key, hashable(one)) for key, one in value.items())
    return value
