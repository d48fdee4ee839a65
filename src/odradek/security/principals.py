"""Who is at the other end of a connection: a kind and a name, as in `User:alice`."""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """Raises `ValueError` with a line that says what is missing."""
        kind, colon, name = text.strip().partition(":")
        if not (kind and colon and name):
            raise ValueError(f"'{text}' is no principal; write its kind first, as in User:alice")
        return cls(kind, name)


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Whoever has not said who it is, which is everybody on a PLAINTEXT listener."""
