"""Names of schemas as names of Python."""

import builtins
import keyword
import re
import unicodedata
from collections.abc import Collection
from typing import Final

# Names that generated modules use themselves.
_TAKEN: Final = frozenset(
    {
        "Any", "ClassVar", "Literal", "TypeAlias", "IntEnum", "StrEnum", "Decimal", "UUID",
        "BaseModel", "ConfigDict", "Field", *dir(builtins),
    }
)  # fmt: skip
# Fields of these names would hide what other fields of the class need, or what a base class has.
_HIDING: Final = frozenset(
    {
        "bool", "bytes", "dict", "dt", "field", "float", "int", "lambda", "list", "str", "Any",
        "Decimal", "Field", "Literal", "UUID", "model_config", "model_fields", "copy", "json",
        "schema", "construct", "validate",
    }
)  # fmt: skip
_FORBIDDEN_MEMBERS: Final = frozenset({"mro", "name", "value"})
_NO_LETTER: Final = re.compile(r"\W+")


class ClassNames:
    """Gives each class of a module a name of its own."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def new(self, *wanted: str) -> str:
        """Returns the first of the names that is free, or the last one with a number."""
        for name in map(_class_name, wanted):
            if name not in self._used and name not in _TAKEN:
                self._used.add(name)
                return name
        number = 2
        while f"{_class_name(wanted[-1])}{number}" in self._used:
            number += 1
        return self.new(f"{wanted[-1]}{number}")


def _class_name(name: str) -> str:
    """Returns a name as it is if it can be a class; otherwise its words with capitals."""
    if name.isidentifier() and name.isascii() and not keyword.iskeyword(name):
        return name if name[0] != name[0].lower() or name[0] == "_" else name[0].upper() + name[1:]
    return capitals(name)


def capitals(name: str) -> str:
    words = _NO_LETTER.sub(" ", _ascii(name)).split()
    made = "".join(word[:1].upper() + word[1:] for word in words) or "Record"
    return f"Of{made}" if made[0].isdigit() or keyword.iskeyword(made) else made


def attribute_names(names: list[str], classes: Collection[str] = ()) -> list[str]:
    """Returns a name in Python for each field of a record, all different, and not those of the
    module's classes."""
    used: set[str] = set(classes)
    result = []
    for name in names:
        made = name if _is_kept(name) else _identifier(name)
        if keyword.iskeyword(made) or made in _HIDING or made.startswith("_"):
            made = f"{made.lstrip('_') or 'value'}_"
        while made in used:
            made += "_"
        used.add(made)
        result.append(made)
    return result


def member_names(names: list[str]) -> list[str]:
    """Returns a name for each member of an enumeration, all different."""
    used: set[str] = set()
    result = []
    for name in names:
        made = name if _is_kept(name) else _identifier(name).upper()
        if keyword.iskeyword(made) or made in _FORBIDDEN_MEMBERS or made.startswith("_"):
            made = f"{made.lstrip('_') or 'EMPTY'}_"
        if made.casefold() in {"mro_"} or hasattr(str, made):
            made = f"{made}_"
        while made in used:
            made += "_"
        used.add(made)
        result.append(made)
    return result


def _is_kept(name: str) -> bool:
    """Returns whether a name is one in Python, and Python does not change its letters."""
    return name.isidentifier() and unicodedata.normalize("NFKC", name) == name


def _identifier(name: str) -> str:
    made = _NO_LETTER.sub("_", _ascii(name)).strip("_")
    if not made:
        return "empty"
    return f"n{made}" if made[0].isdigit() else made


def _ascii(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    if plain.strip():
        return plain
    # Letters without a Latin base, such as Greek ones: their numbers at least differ.
    return "_".join(f"u{ord(letter):x}" for letter in name)
