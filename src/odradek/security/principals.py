"""A principal is who a client is: a type and a name, as in `User:alice`."""

from typing import Final, NamedTuple


class Principal(NamedTuple):
    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """Raises `ValueError`, with a message for the operator, if the text is not a principal."""
        principal_type, colon, name = text.strip().partition(":")
        if not (principal_type and colon and name):
            raise ValueError(
                f"'{text}' is not a valid principal: expected type:name, as in User:alice"
            )
        return cls(principal_type, name)


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of clients that have not authenticated, such as every client of a PLAINTEXT
listener."""
