"""A principal is who a client is: a type and a name, as in `User:alice`."""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """Raises `ValueError`, with a message for the operator, if the text is not a principal."""
        kind, colon, name = text.strip().partition(":")
        if not (kind and colon and name):
            raise ValueError(f"'{text}' is no principal; write its kind first, as in User:alice")
        return cls(kind, name)


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of a client that has not authenticated: of all on a PLAINTEXT listener."""
