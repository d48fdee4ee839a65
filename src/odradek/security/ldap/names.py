"""Names of users inside distinguished names and filters of LDAP.

A user chooses the name that is sent. It must stay one value, whatever is in it: in a distinguished
name its special characters are escaped (RFC 4514), and in a filter it is put into the parsed filter
as a value, so there is nothing to escape.
"""

from dataclasses import replace
from typing import Final

from sansldap import (
    FilterAnd,
    FilterApproxMatch,
    FilterEquality,
    FilterExtensibleMatch,
    FilterNot,
    FilterOr,
    FilterPresent,
    LDAPFilter,
)

USER: Final = "{user}"
DN: Final = "{dn}"
# Spaces and sharps are special only at the ends of a value; escaped they mean the same everywhere.
_SPECIAL: Final = frozenset(' ",+;<>=\\#')


def dn_value(text: str) -> str:
    """Returns a text as a value in a distinguished name."""
    return "".join(
        "".join(f"\\{byte:02x}" for byte in character.encode())
        if character in _SPECIAL or not character.isprintable()
        else character
        for character in text
    )


def first_value(dn: str) -> str:
    """Returns the value of the first part of a distinguished name: `shop` of `cn=shop,ou=groups`.
    Returns an empty text if there is none."""
    value = bytearray()
    _, equals, rest = dn.partition("=")
    position = 0
    while equals and position < len(rest) and rest[position] not in ",+;":
        character = rest[position]
        if character != "\\":
            value += character.encode()
            position += 1
            continue
        pair = rest[position + 1 : position + 3]
        try:
            value += bytes.fromhex(pair) if len(pair) == 2 else b""
            position += 3
        except ValueError:
            value += pair[:1].encode()
            position += 2
    return value.decode(errors="replace").strip()


def parse_filter(text: str, names: tuple[str, ...]) -> LDAPFilter:
    """Returns the filter of a setting. Raises `ValueError` if it is malformed, if none of the names
    (`USER`, `DN`) is in it, or if one is not a whole value."""
    parsed = LDAPFilter.from_string(text)
    values = _values(parsed)
    if not any(name.encode() in values for name in names):
        raise ValueError(f"it must compare an attribute with {' or '.join(names)}")
    if text.count("{") != sum(value in (USER.encode(), DN.encode()) for value in values):
        raise ValueError(f"{USER} and {DN} must be whole values, as in (uid={USER})")
    return parsed


def _values(parsed: LDAPFilter) -> list[bytes]:
    match parsed:
        case FilterAnd() | FilterOr():
            return [value for part in parsed.filters for value in _values(part)]
        case FilterNot():
            return _values(parsed.filter)
        case FilterEquality() | FilterApproxMatch() | FilterExtensibleMatch():
            return [parsed.value]
        case _:
            return []


def with_names(parsed: LDAPFilter, names: dict[str, str]) -> LDAPFilter:
    """Returns a filter with the values of names in their places."""
    match parsed:
        case FilterAnd() | FilterOr():
            return replace(parsed, filters=[with_names(part, names) for part in parsed.filters])
        case FilterNot():
            return replace(parsed, filter=with_names(parsed.filter, names))
        case FilterEquality() | FilterApproxMatch() | FilterExtensibleMatch():
            known = {name.encode(): value.encode() for name, value in names.items()}
            return replace(parsed, value=known.get(parsed.value, parsed.value))
        case _:
            return parsed


EVERYTHING: Final = FilterPresent("objectClass")
