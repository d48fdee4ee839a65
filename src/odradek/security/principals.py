"""A principal is who a client is: a type and a name, as in `User:alice`, and the groups it is in.

Authentication makes the principal of a connection. Groups come from the service that knows the
user: an LDAP directory, or the claims of a token. A group is a principal too, as in `Group:shop`:
ACLs and role bindings may name it, and then they are about every member.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

USER: Final = "User"
GROUP: Final = "Group"


class Principal(NamedTuple):
    """`groups` are the names of groups as principals (`Group:shop`), sorted, each once; use
    `in_groups` to make them from plain names.

    Two principals are equal if their groups are equal too, because a decision about one of them
    must not be used for the other. `is_same_user` compares without groups.
    """

    principal_type: str
    name: str
    groups: tuple[str, ...] = ()

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

    def in_groups(self, names: Iterable[str]) -> "Principal":
        """Returns this principal as a member of these groups and no others. The names are those
        that the directory or the token gives, without `Group:`."""
        return self._replace(groups=tuple(sorted({f"{GROUP}:{name}" for name in names if name})))

    def is_same_user(self, other: "Principal") -> bool:
        """Returns whether both are the same user, whichever groups it was in at each time."""
        return (self.principal_type, self.name) == (other.principal_type, other.name)


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of clients that have not authenticated, such as every client of a PLAINTEXT
listener."""
