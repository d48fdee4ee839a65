"""`odradek roles describe`: what each role permits, from its declaration. No broker is asked."""

from odradek.protocol.roles import Role
from odradek.security.roles import ROLES, permissions_of
from odradek.tools.terminal import print_json, table


def describe(name: str | None, *, as_json: bool) -> int:
    roles = list(ROLES) if name is None else [Role.from_display_name(name)]
    if as_json:
        print_json(
            [
                {
                    "role": role.display_name,
                    "purpose": ROLES[role].purpose,
                    "permissions": [
                        {"boundOn": bound, "operations": operations.split(", "), "on": where}
                        for bound, operations, where in permissions_of(role)
                    ],
                }
                for role in roles
            ]
        )
        return 0
    for number, role in enumerate(roles):
        print(f"{'' if not number else chr(10)}{role.display_name}: {ROLES[role].purpose}")
        rows = [list(row) for row in permissions_of(role)]
        print(table(["BOUND ON", "MAY", "ON"], rows))
    return 0
